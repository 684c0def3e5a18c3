//! The process: flags, logging, signals, exit codes. Everything else is in the library.
//!
//! Exit codes: 0 it stopped when told to, 1 it could not run, 2 the configuration is wrong.

use std::{io::IsTerminal as _, process::ExitCode};

use clap::Parser as _;
use gateway_agent::{
    config::{Args, Config, LogFormat},
    server,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const MISCONFIGURED: u8 = 2;

fn main() -> ExitCode {
    keep_pages_small();
    let args = Args::parse();
    let config = match start_logging(&args).and_then(|()| load(&args)) {
        Ok(config) => config,
        Err(message) => return fail(MISCONFIGURED, &message),
    };
    if args.check {
        println!("the configuration is good");
        return ExitCode::SUCCESS;
    }
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(FAILED, &message),
    }
}

/// Huge pages clear and hold 2 MiB where a connection needs a few KiB: they double the memory of a
/// process like this one, and make it no faster (see `bench/README.md`).
#[cfg(target_os = "linux")]
fn keep_pages_small() {
    // A kernel that does not know the setting goes on as it did.
    let _ = nix::sys::prctl::set_thp_disable(true);
}

#[cfg(not(target_os = "linux"))]
fn keep_pages_small() {}

fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("gateway-agent: {message}");
    ExitCode::from(code)
}

fn load(args: &Args) -> Result<Config, String> {
    Config::load(args).map_err(|e| e.to_string())
}

fn start_logging(args: &Args) -> Result<(), String> {
    let filter = EnvFilter::try_new(&args.log).map_err(|e| format!("--log: {e}"))?;
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => logging.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => logging.json().flatten_event(true).init(),
    }
    Ok(())
}

#[tokio::main]
async fn serve(config: Config) -> Result<(), String> {
    // It fails only where a provider is installed already, which serves as well.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|e| format!("cannot listen on {}: {e}", config.listen))?;
    let shutdown = shutdown().map_err(|e| format!("cannot wait for signals: {e}"))?;
    server::run(listener, config, shutdown).await.map_err(|e| e.to_string())
}

/// Completes at SIGTERM or SIGINT.
fn shutdown() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
