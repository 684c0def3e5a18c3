//! What the gateway says of itself: what it can do depends on whose servers a caller may use.
//!
//! Deliberately absent: who answers (`respond`).

use serde_json::json;

use super::{Endpoint, Rejection, manner::Who};
use crate::{
    pipeline::relay,
    upstream::{Era, TASKS},
    view::shown::Showcase,
};
use registry_core::entity::Exposure;

/// Longest instructions of all servers together, in characters.
const INSTRUCTIONS: usize = 16 * 1024;

/// What there is for one caller.
#[derive(Debug)]
pub(super) struct Offered {
    prompts: bool,
    resources: bool,
    completions: bool,
    tasks: bool,
    /// How the servers' tools are best used.
    pub(super) instructions: Option<String>,
}

/// What there is for a caller. Without a catalog there is nothing yet.
pub(super) fn of(endpoint: &Endpoint, who: &Who) -> Result<Offered, Rejection> {
    let gateway = &endpoint.gateway;
    let snapshot = gateway.views().now();
    let showcase = relay::showcase(gateway, &snapshot, &who.claim, who.client.clone());
    let exposes = |what| showcase.iter().any(|shown| shown.exposes(what));
    Ok(Offered {
        prompts: exposes(Exposure::Prompts),
        resources: exposes(Exposure::Resources),
        completions: showcase.iter().any(|shown| shown.features.can("completions")),
        tasks: showcase.iter().any(|shown| shown.features.knows(TASKS)),
        instructions: instructions(&showcase),
    })
}

/// Each server's own words, under the name by which a caller knows what it has.
fn instructions(showcase: &Showcase) -> Option<String> {
    let mut all = String::new();
    for shown in showcase.iter() {
        let Some(own) = shown.features.instructions().filter(|own| !own.trim().is_empty()) else {
            continue;
        };
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        if !shown.prefix.is_empty() {
            all.push_str(&format!("{}: ", shown.prefix.as_str()));
        }
        all.push_str(own);
    }
    let end = all.char_indices().nth(INSTRUCTIONS).map_or(all.len(), |(end, _)| end);
    all.truncate(end);
    (!all.is_empty()).then_some(all)
}

impl Offered {
    /// As an era writes it.
    pub(super) fn capabilities(&self, era: Era) -> String {
        let mut all = json!({ "tools": { "listChanged": true }, "logging": {} });
        if self.prompts {
            all["prompts"] = json!({ "listChanged": true });
        }
        if self.resources {
            all["resources"] = json!({ "listChanged": true, "subscribe": true });
        }
        if self.completions && (self.prompts || self.resources) {
            all["completions"] = json!({});
        }
        if self.tasks && era == Era::Modern {
            all["extensions"] = json!({ TASKS: {} });
        }
        all.to_string()
    }
}
