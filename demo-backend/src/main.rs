//! The `demo-backend` binary. The library contains the servers and the agents.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use demo_backend::cli::{Cli, Mode};
use demo_backend::{agents, http, servers, stdio};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let outcome = runtime.block_on(run(cli));
    // A blocked read of standard input must not delay the exit.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    let stop = CancellationToken::new();
    stop_on_signal(&stop)?;
    match cli.mode() {
        Mode::Stdio(name) => {
            let server = servers::find(&name, cli.clock()).ok_or("no such server")?;
            stdio::serve(server, stop).await
        }
        Mode::Http(address) => {
            let listener = TcpListener::bind(&address)
                .await
                .map_err(|error| format!("cannot listen on {address}: {error}"))?;
            println!("demo-backend listening on http://{}", listener.local_addr()?);
            let (servers, agents) = (servers::all(cli.clock()), agents::all(cli.clock()));
            http::serve(listener, servers, agents, cli.allowed_hosts(), stop).await?;
            Ok(())
        }
    }
}

/// Cancels `stop` at the first SIGTERM or ctrl-c.
fn stop_on_signal(stop: &CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}

fn failed(error: &dyn Error) -> ExitCode {
    eprintln!("demo-backend: {error}");
    ExitCode::FAILURE
}
