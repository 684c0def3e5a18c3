//! `import server-json`: the documents of a `server.json`, or of what an MCP registry answered,
//! become server entities; applied as `apply` does, or written for a person to review.
//!
//! Deliberately absent: further pages of a registry's list; a warning says that there are some.

use std::path::Path;

use registry_core::{Entity, rules::Proposed};
use serde::Serialize;

use super::{
    super::{Session, apply, export::save, refused, show_findings},
    fetch,
};
use crate::{
    batch::Batch,
    cli::{ApplyGuards, ImportServerJsonArgs},
    failure::Failure,
    input::Source,
};

/// A registry file with servers only.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    schema_version: &'static str,
    servers: Vec<&'a Entity>,
}

pub(super) async fn run(session: &Session, args: ImportServerJsonArgs) -> Result<(), Failure> {
    let ImportServerJsonArgs { from, out, how, commit } = args;
    let source = if fetch::is_url(&from) {
        Source::made(&from, fetch::text(&from).await?)
    } else {
        Source::read(Path::new(&from))?
    };
    let batch = Batch::of_server_json(source);
    match out {
        Some(out) => write(session, &batch, &out),
        None => apply::batch(session, batch, (how, ApplyGuards::default()), commit).await,
    }
}

fn write(session: &Session, batch: &Batch, out: &Path) -> Result<(), Failure> {
    let report = batch.report(Vec::new());
    if report.has_errors() {
        return Err(refused(session.screen, &report));
    }
    show_findings(session.screen, &report);
    let documents = batch.proposals().iter().filter_map(Proposed::document);
    let servers = documents.map(|document| document.entity()).collect();
    let file = File { schema_version: "2.0", servers };
    // Entities are JSON objects with string keys, so writing them into memory cannot fail.
    let mut bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
    bytes.push(b'\n');
    if out == Path::new("-") {
        return save(session, None, &bytes);
    }
    save(session, Some(out), &bytes)?;
    session.screen.line(&format!("written: {}", out.display()))
}
