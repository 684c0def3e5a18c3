//! `import a2a`: the card of an agent as a registry document.
//!
//! The extended card and verification of signatures are not supported.

use std::time::Instant;

use registry_core::{Kind, Name};
use registry_import::{AgentImportOptions, Imported, import_agent};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    cli::ImportA2aArgs,
    failure::Failure,
    live::{Endpoint, Target, get_json, without_query},
    progress::Progress,
};

/// Paths of the card: since A2A 0.3, and in A2A 0.2.
const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

pub(super) async fn import(args: &ImportA2aArgs) -> Result<Imported, Failure> {
    let target = Target::new(Endpoint::url(&args.url)?, &args.live)?;
    let name = args.name.as_deref().map(|name| Name::parse(Kind::Agent, name));
    let name = name.transpose().map_err(Failure::usage)?;
    let progress = Progress::spinner("reading the card");
    let started = Instant::now();
    let card = timeout(target.timeout(), card(&target, &args.url)).await;
    let card = card.unwrap_or_else(|_| Err(target.timed_out()))?;
    drop(progress);
    let url = without_query(&args.url).to_owned();
    let options = AgentImportOptions { name, version: args.version.clone(), url };
    target.process(started, move || import_agent(&card, &options)).await
}

/// The first card found below the URL or at the root of its host.
pub(in super::super) async fn card(target: &Target, url: &str) -> Result<Value, Failure> {
    if without_query(url).to_ascii_lowercase().ends_with(".json") {
        let found = get_json(target, url).await?;
        return found.ok_or_else(|| target.invalid_response("no card at this URL"));
    }
    let address = without_query(url).trim_end_matches('/');
    let root = address.split('/').take(3).collect::<Vec<_>>().join("/");
    let bases = [address, root.as_str()];
    for base in bases.iter().take(if address == root { 1 } else { 2 }) {
        for well_known in WELL_KNOWN {
            if let Some(card) = get_json(target, &format!("{base}{well_known}")).await? {
                return Ok(card);
            }
        }
    }
    Err(target.invalid_response(format!(
        "no card: neither {} nor {} exists",
        WELL_KNOWN[0], WELL_KNOWN[1]
    )))
}
