//! `sbom`: software bills of materials.

mod diff;
mod export;
mod where_used;

use super::{Session, export::save};
use crate::{cli::SbomCommand, failure::Failure};

pub(super) async fn run(session: &Session, command: SbomCommand) -> Result<(), Failure> {
    match command {
        SbomCommand::Export(args) => export::run(session, args).await,
        SbomCommand::Diff(args) => diff::run(session, args).await,
        SbomCommand::WhereUsed(args) => where_used::run(session, &args).await,
    }
}
