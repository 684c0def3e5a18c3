//! Tool names of an imported server that other servers have in the registry.
//!
//! The registry's plan contains the findings. Without a registry, the import continues.

use registry_core::Code;
use registry_import::Draft;
use registry_proto::v1;

use super::super::{Session, commit};
use crate::{
    batch::Batch,
    failure::Failure,
    input::Source,
    report::{Finding, Report},
};

/// The findings about shared names. If the registry is unavailable, a note is printed instead.
pub(super) async fn shared(session: &Session, draft: &Draft) -> Report {
    match planned(session, draft).await {
        Ok(found) => {
            let shared = Code::ToolNameShared.as_str();
            // The same version of another server is a separate error.
            let is_about_name = |found: &&v1::Diagnostic| {
                found.code == shared
                    || found.code == Code::AlreadyRegistered.as_str() && found.pointer == "/name"
            };
            Report::new(found.iter().filter(is_about_name).map(Finding::from).collect())
        }
        Err(failure) => {
            eprintln!("note: tool names were not compared with the registry: {failure}");
            Report::new(Vec::new())
        }
    }
}

/// The diagnostics of a dry run.
async fn planned(session: &Session, draft: &Draft) -> Result<Vec<v1::Diagnostic>, Failure> {
    let client = session.connect().await?;
    let text = String::from_utf8(draft.write()).map_err(Failure::usage)?;
    let batch = Batch::from_source(Source::generated("<import>", text));
    let changes = batch.proposals().iter().map(v1::EntityChange::from).collect();
    let wanted = v1::ApplyChangesRequest { changes, ..v1::ApplyChangesRequest::default() };
    match commit::dry_run(&client, &wanted).await {
        Ok(response) => Ok(response.diagnostics),
        Err(Failure::Invalid(found)) => Ok(found),
        Err(failure) => Err(failure),
    }
}
