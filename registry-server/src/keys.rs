//! `registry-server checkpoint-key …`: which key signs this database's checkpoints.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use registry_server::{
    Config,
    checkpoint_key::{self, Error},
    config::CheckpointKeyCommand,
    store::Store,
};

use super::{DATABASE, FAILED, USAGE};

type Failure = (u8, String);

/// Does what the command says.
pub(super) async fn run(
    config: &Config,
    command: CheckpointKeyCommand,
) -> Result<ExitCode, Failure> {
    let CheckpointKeyCommand::Adopt { promote_relay } = command;
    let url = config.database().map_err(|e| (USAGE, e.to_string()))?;
    let file = config.checkpoint_key().map_err(|e| (USAGE, e.to_string()))?;
    let store = Store::open_beside(&url).await.map_err(|e| (DATABASE, e.to_string()))?;
    let adopted = adopt(&store, &file, promote_relay).await;
    store.close().await;
    let (ours, before) = adopted.map_err(|e| failure(&e))?;
    if ours == before {
        eprintln!("this key signs for the registry already");
    } else {
        eprintln!("before, this key signed: {before}");
        eprintln!("restart the servers with the new one, and tell auditors:");
    }
    writeln!(io::stdout(), "{ours}")
        .map_err(|e| (FAILED, format!("cannot write the output: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

async fn adopt(store: &Store, file: &Path, promote_relay: bool) -> Result<(String, String), Error> {
    if !promote_relay {
        // Before a key is made that signs nothing.
        checkpoint_key::refuse_relay(store).await?;
    }
    checkpoint_key::adopt(store, &checkpoint_key::open(file)?).await
}

fn failure(error: &Error) -> Failure {
    let code = if matches!(error, Error::Store(_)) { DATABASE } else { USAGE };
    (code, error.to_string())
}
