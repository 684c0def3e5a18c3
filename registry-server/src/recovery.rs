//! `registry-server ledger`: recovery of budgets after a backup of the database was restored.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use registry_server::{
    Config,
    access::Principal,
    clock::{Clock as _, SystemClock},
    config::LedgerCommand,
    store::{GenerationCause, LedgerFailure, Store},
};

use super::{FAILED, USAGE, database_failure, require_database};

pub(super) async fn run(config: &Config, command: LedgerCommand) -> Result<ExitCode, (u8, String)> {
    require_database(config)?;
    let url = config.database().map_err(|e| (USAGE, e.to_string()))?;
    let store = Store::open_existing(&url).await.map_err(|e| database_failure(&e))?;
    let by = Principal::local(&config.user);
    let message = match command {
        LedgerCommand::Recover => {
            let generation = start(&store, &by).await?;
            format!(
                "started generation {generation}: budgets grant nothing for 60 seconds and until every \
                 active gateway has reported"
            )
        }
        LedgerCommand::EndRecovery => {
            let event = by.access_event(SystemClock.now(), String::new());
            let ended = store.end_recovery(&event).await.map_err(|e| database_failure(&e))?;
            format!("ended the recovery of generation {}", ended.number)
        }
    };
    store.close().await;
    writeln!(io::stdout(), "{message}")
        .map_err(|e| (FAILED, format!("cannot write the output: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a generation and returns its number. Budgets grant nothing until the gateways have reported.
pub(super) async fn start(store: &Store, by: &Principal) -> Result<u64, (u8, String)> {
    let time = store.database_time().await.map_err(|e| database_failure(&e))?;
    let now = time.unwrap_or_else(|| SystemClock.now());
    let event = by.access_event(now, String::new());
    let started = store.start_generation(GenerationCause::Restored(&event), now).await;
    Ok(started.map_err(|e| failure(&e))?.generation)
}

fn failure(failure: &LedgerFailure) -> (u8, String) {
    match failure {
        LedgerFailure::Store(error) => database_failure(error),
        LedgerFailure::Lost | LedgerFailure::UnknownGeneration(_) => (FAILED, failure.to_string()),
    }
}
