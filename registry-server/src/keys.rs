//! `registry-server checkpoint-key`: replaces the key that signs checkpoints.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use registry_server::{
    Config,
    access::Principal,
    checkpoint_key::{self, Error},
    clock::{Clock as _, SystemClock},
    config::CheckpointKeyCommand,
    store::Store,
};

use super::{DATABASE, FAILED, USAGE, database_failure, recovery, require_database};

type Failure = (u8, String);

pub(super) async fn run(
    config: &Config,
    command: CheckpointKeyCommand,
) -> Result<ExitCode, Failure> {
    let CheckpointKeyCommand::Replace { promote_relay } = command;
    require_database(config)?;
    let url = config.database().map_err(|e| (USAGE, e.to_string()))?;
    let file = config.checkpoint_key().map_err(|e| (USAGE, e.to_string()))?;
    let store = Store::open_existing(&url).await.map_err(|e| database_failure(&e))?;
    let by = Principal::local(&config.user);
    let replacing = replace(&store, &file, promote_relay, &by);
    let (current, before) = replacing.await.map_err(|e| failure(&e))?;
    if promote_relay {
        // A relay has no spending of budgets: gateways report their totals first.
        recovery::start(&store, &by).await?;
    }
    store.close().await;
    if promote_relay {
        eprintln!("the copy is the registry now; start its servers without --follow");
    }
    if current != before {
        eprintln!("previous key: {before}");
        eprintln!("restart the servers with the new key and give it to auditors:");
    } else if !promote_relay {
        eprintln!("the registry already uses this key");
    }
    writeln!(io::stdout(), "{current}")
        .map_err(|e| (FAILED, format!("cannot write the output: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

async fn replace(
    store: &Store,
    file: &Path,
    promote_relay: bool,
    by: &Principal,
) -> Result<(String, String), Error> {
    if !promote_relay {
        // Before `open` creates a key file.
        checkpoint_key::reject_relay(store).await?;
    }
    let event = by.access_event(SystemClock.now(), String::new());
    checkpoint_key::replace(store, &checkpoint_key::open(file)?, event).await
}

fn failure(error: &Error) -> Failure {
    let code = if matches!(error, Error::Store(_)) { DATABASE } else { USAGE };
    (code, error.to_string())
}
