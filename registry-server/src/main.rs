//! Wiring: settings, logs, socket, signals.

mod keys;
mod tokens;

use std::{io::Write as _, pin::pin, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser as _;
use registry_server::{
    Config, Server, checkpoint_key, clock::SystemClock, config::Command, relay, server::Error,
    store::Store, telemetry,
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
    keep_pages_small();
    allow_many_files();
    let config = Config::parse();
    if let Err(e) = telemetry::start(&config.log, config.log_format) {
        return fail(USAGE, &format!("--log {:?} is not a filter: {e}", config.log));
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(e) => return fail(FAILED, &format!("the runtime cannot start: {e}")),
    };
    let result = runtime.block_on(async {
        match config.command.clone() {
            None => run(config).await,
            Some(Command::Token(command)) => tokens::run(&config, command).await,
            Some(Command::CheckpointKey(command)) => keys::run(&config, command).await,
            Some(Command::Migrate) => migrate(&config).await,
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(500));
    result.unwrap_or_else(|(code, message)| fail(code, &message))
}

/// Huge pages clear and hold 2 MiB where a connection needs a few KiB: they double the memory of a
/// process like this one, and make it no faster (see `docs/adr/0006-memory-before-huge-pages.md`).
#[cfg(target_os = "linux")]
fn keep_pages_small() {
    // A kernel that does not know the setting goes on as it did.
    let _ = nix::sys::prctl::set_thp_disable(true);
}

#[cfg(not(target_os = "linux"))]
fn keep_pages_small() {}

/// Each connection is a file; the usual soft limit is far below what the system allows.
#[cfg(target_os = "linux")]
fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where it is refused, the limit stays, and the log says when it is reached.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

#[cfg(not(target_os = "linux"))]
fn allow_many_files() {}

/// Creates or migrates the schema, as a server does that starts.
async fn migrate(config: &Config) -> Result<ExitCode, (u8, String)> {
    let url = config.database().map_err(|e| (USAGE, e.to_string()))?;
    let store = Store::open(&url).await.map_err(|e| (DATABASE, e.to_string()))?;
    store.close().await;
    writeln!(std::io::stdout(), "{url} has schema version {}", Store::SCHEMA)
        .map_err(|e| (FAILED, format!("cannot write the output: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(config: Config) -> Result<ExitCode, (u8, String)> {
    let (stop, stop_now) =
        stop_signals().map_err(|e| (FAILED, format!("signals cannot be caught: {e}")))?;
    let mut stop = pin!(stop);
    let listen = config.listen;
    let server = tokio::select! {
        server = Server::open(config, Arc::new(SystemClock)) => {
            server.map_err(|e| (code(&e), e.to_string()))?
        }
        // Nobody was served yet, so nothing is to be drained.
        () = &mut stop => {
            tracing::info!("told to stop before it served anybody");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let listening =
        async { TcpListener::bind(listen).await.and_then(|l| Ok((l.local_addr()?, l))) };
    let (address, listener) =
        listening.await.map_err(|e| (FAILED, format!("cannot listen on {listen}: {e}")))?;
    // Whoever started the server reads this line; if nobody does, it serves all the same.
    let _ = writeln!(std::io::stdout(), "{}", server.banner(address));
    tokio::select! {
        drained = server.serve(listener, stop) => drained.map_err(|e| (code(&e), e.to_string()))?,
        () = stop_now => {
            let message = "a second signal ended the drain; some callers were not answered";
            return Err((FAILED, message.to_owned()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Complete at the first and at the second SIGTERM or SIGINT.
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
        | Error::CheckpointKey(checkpoint_key::Error::Store(_)) => DATABASE,
        Error::Config(_)
        | Error::Tls(_)
        | Error::Oidc(_)
        | Error::CheckpointKey(_)
        | Error::Relay(_) => USAGE,
        Error::Admin { .. } | Error::Reflection(_) | Error::Transport(_) | Error::Writer(_) => {
            FAILED
        }
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    // Nobody may be reading standard error either.
    let _ = writeln!(std::io::stderr(), "registry-server: {message}");
    ExitCode::from(code)
}
