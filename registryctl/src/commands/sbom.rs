//! `sbom`: bills of materials.

mod diff;
mod export;
mod who_has;

use super::{Session, export::save};
use crate::{cli::Sbom, failure::Failure};

pub(super) async fn run(session: &Session, command: Sbom) -> Result<(), Failure> {
    match command {
        Sbom::Export(args) => export::run(session, args).await,
        Sbom::Diff(args) => diff::run(session, args).await,
        Sbom::WhoHas(args) => who_has::run(session, &args).await,
    }
}
