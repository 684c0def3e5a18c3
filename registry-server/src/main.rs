//! Entry point: settings, logging, listening socket and signals.

mod keys;
mod recovery;
mod tokens;

use std::{io::Write as _, pin::pin, process::ExitCode, sync::Arc, time::Duration};

use clap::CommandFactory as _;
use registry_server::{
    Config, Server, approval_key, checkpoint_key,
    clock::SystemClock,
    config::Command,
    connections::listen_remedy,
    relay,
    server::Error,
    store::{self, Store},
    telemetry,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const DATABASE: u8 = 3;

fn main() -> ExitCode {
    disable_huge_pages();
    raise_file_limit();
    let config: Config = command_line::parse(Config::command());
    let log_format = config.log_format;
    let fail = |code: u8, message: &str| {
        telemetry::fatal(message, log_format);
        ExitCode::from(code)
    };
    if let Err(e) = telemetry::start(&config.log, log_format) {
        let problem = format!("--log or REGISTRY_LOG: invalid filter {:?}: {e}", config.log);
        return fail(USAGE, &problem);
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(e) => return fail(FAILED, &format!("cannot start the async runtime: {e}")),
    };
    let result = runtime.block_on(async {
        match config.command.clone() {
            None => Box::pin(run(config)).await,
            Some(Command::Token(command)) => tokens::run(&config, command).await,
            Some(Command::CheckpointKey(command)) => keys::run(&config, command).await,
            Some(Command::Ledger(command)) => recovery::run(&config, command).await,
            Some(Command::Migrate) => migrate(&config).await,
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(500));
    result.unwrap_or_else(|(code, message)| fail(code, &message))
}

/// Transparent huge pages allocate 2 MiB for connections that need a few KiB. They double the memory of
/// this process without a gain in speed (`docs/adr/0006-disable-transparent-huge-pages.md`).
#[cfg(target_os = "linux")]
fn disable_huge_pages() {
    // Older kernels reject the setting; the process then runs with huge pages.
    let _ = nix::sys::prctl::set_thp_disable(true);
}

#[cfg(not(target_os = "linux"))]
fn disable_huge_pages() {}

/// Raises the soft limit of open files to the hard limit, because each connection is a file.
#[cfg(target_os = "linux")]
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A failure keeps the limit; the server logs a warning when it runs out of files.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(not(target_os = "linux"))]
fn raise_file_limit() {}

/// Creates or migrates the schema. A starting server does the same.
async fn migrate(config: &Config) -> Result<ExitCode, (u8, String)> {
    let url = config.database().map_err(|e| (USAGE, e.to_string()))?;
    let store = Store::open(&url).await.map_err(|e| database_failure(&e))?;
    store.close().await;
    writeln!(std::io::stdout(), "schema version {} in {url}", Store::SCHEMA)
        .map_err(|e| (FAILED, format!("cannot write the output: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(config: Config) -> Result<ExitCode, (u8, String)> {
    let (stop, stop_now) =
        stop_signals().map_err(|e| (FAILED, format!("cannot install signal handlers: {e}")))?;
    let mut stop = pin!(stop);
    let listen = config.listen;
    let server = tokio::select! {
        server = Server::open(config, Arc::new(SystemClock)) => {
            server.map_err(|e| startup_failure(&e))?
        }
        // No request has been accepted yet, so there is nothing to drain.
        () = &mut stop => {
            tracing::info!("stopped before the server was ready");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let listening =
        async { TcpListener::bind(listen).await.and_then(|l| Ok((l.local_addr()?, l))) };
    let (address, listener) = listening.await.map_err(|e| {
        let remedy = listen_remedy(&e);
        (FAILED, format!("cannot listen on {listen}: {e}; {remedy} (--listen)"))
    })?;
    // A closed standard output does not stop the server.
    let _ = writeln!(std::io::stdout(), "{}", server.banner(address));
    tokio::select! {
        drained = server.serve(listener, stop) => drained.map_err(|e| (code(&e), e.to_string()))?,
        () = stop_now => {
            let message = "a second signal interrupted the drain; some requests got no response";
            return Err((FAILED, message.to_owned()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Futures that complete at the first and at the second SIGTERM or SIGINT.
fn stop_signals() -> std::io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let tokens = [first.clone(), second.clone()];
    tokio::spawn(async move {
        for token in tokens {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok((first.cancelled_owned(), second.cancelled_owned()))
}

fn code(error: &Error) -> u8 {
    match error {
        Error::Store(_)
        | Error::Relay(relay::Error::Store(_))
        | Error::ApprovalKey(approval_key::Error::Store(_))
        | Error::CheckpointKey(checkpoint_key::Error::Store(_)) => DATABASE,
        Error::Config(_)
        | Error::Tls(_)
        | Error::Oidc(_)
        | Error::Webhook(_)
        | Error::Currency(_)
        | Error::Web(_)
        | Error::ApprovalKey(_)
        | Error::CheckpointKey(_)
        | Error::Relay(_) => USAGE,
        Error::Admin { .. }
        | Error::Reflection(_)
        | Error::Descriptors(_)
        | Error::Transport(_)
        | Error::Writer(_) => FAILED,
    }
}

/// A failed start. An unreachable database needs another remedy than one that is lost later.
fn startup_failure(error: &Error) -> (u8, String) {
    match error {
        Error::Store(error)
        | Error::Relay(relay::Error::Store(error))
        | Error::ApprovalKey(approval_key::Error::Store(error))
        | Error::CheckpointKey(checkpoint_key::Error::Store(error)) => database_failure(error),
        other => (code(other), other.to_string()),
    }
}

/// Rejects a missing database before anything is created in its place.
fn require_database(config: &Config) -> Result<(), (u8, String)> {
    let url = config.database_url().map_err(|e| (USAGE, e.to_string()))?;
    if url.is_missing() {
        let remedy = "pass the --data-dir or --database of the server";
        return Err((DATABASE, format!("database {url} not found; {remedy}")));
    }
    Ok(())
}

fn database_failure(error: &store::Error) -> (u8, String) {
    let remedy = match error {
        store::Error::Unavailable { detail, .. } if registry_tls::is_untrusted_ca(detail) => {
            "; set sslrootcert in the database URL to the CA of the database's certificate"
        }
        store::Error::Unavailable { .. } => {
            "; check --database and that the database accepts connections"
        }
        _ => "",
    };
    (DATABASE, format!("{error}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_database_names_setting_of_ca() {
        let detail = "error occurred while attempting to establish a TLS connection: invalid peer \
                      certificate: UnknownIssuer";
        let database = "postgres://registry@db:5432/registry".to_owned();
        let error = store::Error::Unavailable { database, detail: detail.to_owned() };
        let (code, message) = database_failure(&error);
        assert!(code == DATABASE && message.contains("sslrootcert"), "{message}");
    }
}
