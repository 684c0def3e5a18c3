//! `registryctl`: the registry's command line for teams, auditors and operators.
//!
//! Arguments are in `cli`, commands in `commands` with one file each, and errors in `failure`.

mod address;
mod batch;
mod cli;
mod client;
mod commands;
mod comparison;
mod copy;
mod credentials;
mod diff;
mod failure;
mod flow;
mod follow;
mod graph;
mod input;
mod live;
mod lock;
mod picture;
mod plan;
mod progress;
#[cfg(test)]
mod reference;
mod report;
mod screen;
mod style;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    let errors = style::Style::for_stderr(arguments.globals.no_color);
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failure::Failure::Runtime)
        .and_then(|runtime| runtime.block_on(commands::run(arguments)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.end(errors),
    }
}
