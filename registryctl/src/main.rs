//! `registryctl`: the command line of the registry for teams, auditors and operators.
//!
//! Arguments are in `cli`, commands in `commands` with one file each, and errors in `failure`.

mod address;
mod batch;
mod cli;
mod client;
mod clock;
mod commands;
mod comparison;
mod credentials;
mod diagnose;
mod diagram;
mod diff;
mod failure;
mod follow;
mod form;
mod graph;
mod input;
mod live;
mod lock;
mod plan;
mod point_in_time;
mod progress;
#[cfg(test)]
mod reference;
mod report;
mod retry;
mod screen;
mod style;
mod suggest;
mod view;
mod yaml_flow;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = cli::parse();
    let is_plain = arguments.globals.is_plain();
    let errors = style::Style::for_stderr(is_plain);
    if is_plain {
        progress::disable();
    }
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failure::Failure::Runtime)
        .and_then(|runtime| runtime.block_on(commands::run(arguments)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(errors),
    }
}
