//! `completions`: a shell completion script.
//!
//! Completion of registered names is not supported.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Session;
use crate::{cli::Arguments, failure::Failure};

pub(super) fn run(session: &Session, shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "registryctl", &mut script);
    session.screen.bytes(&script)
}
