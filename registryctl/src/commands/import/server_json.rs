//! `import server-json`: the servers of a `server.json`, or of the response of an MCP registry.
//!
//! Further pages of a response are not read; a finding reports them.

use std::path::Path;

use registry_core::rules::Proposed;
use registry_import::{Draft, Imported, Repair, RepairedBy};

use super::{
    super::{Session, reject_errors},
    fetch,
};
use crate::{
    batch::Batch, cli::ImportServerJsonArgs, failure::Failure, input::Source, live::is_url,
    report::Finding,
};

/// An invalid file is rejected with findings.
pub(super) async fn import(
    session: &Session,
    ImportServerJsonArgs { from, .. }: &ImportServerJsonArgs,
) -> Result<Imported, Failure> {
    let source =
        if is_url(from) { fetch::document(from).await? } else { Source::read(Path::new(from))? };
    let batch = Batch::from_server_json(source);
    let report = batch.report(Vec::new());
    reject_errors(session.screen, &report)?;
    let documents = batch.proposals().iter().filter_map(Proposed::document);
    let servers = documents.map(|document| document.entity().to_value()).collect();
    let repairs = report.findings().iter().map(open_decision).collect();
    let draft = Draft { servers, ..Draft::default() };
    Ok(Imported { draft, repairs, ..Imported::default() })
}

/// A warning as an open decision.
fn open_decision(Finding { pointer, message, help, .. }: &Finding) -> Repair {
    Repair {
        pointer: pointer.clone(),
        what: message.clone(),
        how: help.clone().unwrap_or_default(),
        by: RepairedBy::Person,
    }
}
