//! `import server-json`: the documents of a `server.json`, or of what an MCP registry answered, as
//! server entities.
//!
//! Further pages of a registry's list are not read; the command reports that they exist.

use std::path::Path;

use registry_core::rules::Proposed;
use registry_import::{Draft, Imported, Repair, RepairedBy};

use super::{
    super::{Session, refuse_errors},
    fetch,
};
use crate::{
    batch::Batch, cli::ImportServerJsonArgs, failure::Failure, input::Source, report::Finding,
};

/// What is wrong in the file is shown at its line, and then nothing is imported.
pub(super) async fn import(
    session: &Session,
    ImportServerJsonArgs { from, .. }: &ImportServerJsonArgs,
) -> Result<Imported, Failure> {
    let source = if fetch::is_url(from) {
        fetch::document(from).await?
    } else {
        Source::read(Path::new(from))?
    };
    let batch = Batch::of_server_json(source);
    let report = batch.report(Vec::new());
    refuse_errors(session.screen, &report)?;
    let documents = batch.proposals().iter().filter_map(Proposed::document);
    let servers = documents.map(|document| document.entity().to_value()).collect();
    let repairs = report.findings().iter().map(doubt).collect();
    let draft = Draft { servers, ..Draft::default() };
    Ok(Imported { draft, repairs, ..Imported::default() })
}

/// A warning is for a person to look at.
fn doubt(Finding { pointer, message, help, .. }: &Finding) -> Repair {
    Repair {
        pointer: pointer.clone(),
        what: message.clone(),
        how: help.clone().unwrap_or_default(),
        by: RepairedBy::Person,
    }
}
