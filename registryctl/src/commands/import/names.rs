//! Tool names of an imported server that the registry has from other servers.
//!
//! The findings come from the registry's plan of the import. The import continues without a registry.

use registry_core::Code;
use registry_import::Draft;
use registry_proto::v1;

use super::super::Session;
use crate::{
    batch::Batch,
    client::request,
    failure::Failure,
    input::Source,
    report::{Finding, Report},
};

/// The findings about shared names; none, and a note, where the registry does not answer.
pub(super) async fn shared(session: &Session, draft: &Draft) -> Report {
    match planned(session, draft).await {
        Ok(found) => {
            let shared = Code::ToolNameShared.as_str();
            // A version that another server has is an error of its own.
            let is_about_name = |found: &&v1::Diagnostic| {
                found.code == shared
                    || found.code == Code::AlreadyRegistered.as_str() && found.pointer == "/name"
            };
            Report::new(found.iter().filter(is_about_name).map(Finding::from).collect())
        }
        Err(failure) => {
            eprintln!("note: tool names were not compared with those in the registry: {failure}");
            Report::new(Vec::new())
        }
    }
}

/// The diagnostics of a dry run.
async fn planned(session: &Session, draft: &Draft) -> Result<Vec<v1::Diagnostic>, Failure> {
    let client = session.connect().await?;
    let text = String::from_utf8(draft.write()).map_err(Failure::usage)?;
    let batch = Batch::of(Source::made("<import>", text));
    let changes = batch.proposals().iter().map(v1::Change::from).collect();
    let wanted = v1::ApplyRequest { changes, dry_run: true, ..v1::ApplyRequest::default() };
    match client.answer(client.registry().apply(request(wanted))).await {
        Ok(response) => Ok(response.diagnostics),
        Err(Failure::Invalid(found)) => Ok(found),
        Err(failure) => Err(failure),
    }
}
