//! Compares the card that an agent serves with its registration, as `registryctl drift` does.

use std::collections::BTreeMap;

use registry_core::{
    Catalog, Digest, Entity, Record,
    document::parse_json,
    live::{LiveDifference, compare_agent},
};
use registry_import::{AgentImportOptions, live_agent};
use serde_json::Value;

use super::{
    comparison::{
        ComparisonInputs, ComparisonResult, ContractState, Drift, DriftClass, KEPT_CHARS, LiveTools,
    },
    definition::{DefinitionPart, Fingerprint},
};

/// The inputs of a comparison.
pub(super) fn inputs(record: &Record, live: LiveTools<'_>) -> ComparisonInputs {
    ComparisonInputs {
        documents: record.document.digest(),
        is_listed: live.tools.is_some(),
        is_provisional: live.is_provisional,
        live: live.card().map(|card| Digest::compute(card.as_bytes())),
    }
}

/// The digest of the card that an agent serves.
pub(super) fn fingerprint(live: LiveTools<'_>) -> Option<Fingerprint> {
    Some(Fingerprint::from_card(&parsed(live.card()?)))
}

/// The card as JSON. The client of the agent has parsed it before.
fn parsed(card: &str) -> Value {
    parse_json(card.as_bytes()).unwrap_or_default()
}

/// Compares a card. An agent without a card has no differences.
pub(super) fn compare(catalog: &Catalog, record: &Record, live: LiveTools<'_>) -> ComparisonResult {
    let card = live.card().map(parsed);
    let drift = match card.as_ref().map(|card| differences(catalog, record, card)) {
        None => Vec::new(),
        Some(Ok(found)) => worst_first(found),
        Some(Err(why)) => {
            let what = shortened(&format!("the card is invalid: {why}"));
            vec![Drift { part: DefinitionPart::Card, class: DriftClass::Unknown, what }]
        }
    };
    ComparisonResult {
        state: if card.is_some() { ContractState::Unchanged } else { ContractState::Pending },
        live: card.as_ref().map(Fingerprint::from_card),
        drift,
        inherited: Vec::new(),
        is_provisional: live.is_provisional,
        // A new version or skill changes nothing for callers.
        tolerated: Some(DriftClass::Compatible),
    }
}

fn differences(
    catalog: &Catalog,
    record: &Record,
    card: &Value,
) -> Result<Vec<LiveDifference>, String> {
    let key = record.document.key();
    let Entity::Agent(agent) = record.document.entity() else { return Ok(Vec::new()) };
    let options = AgentImportOptions {
        name: Some(key.name.clone()),
        url: agent.url.clone(),
        ..AgentImportOptions::default()
    };
    let live = live_agent(card, &options)?;
    compare_agent(catalog, key, &live).map_err(|error| error.to_string())
}

/// The first difference of each class, with the number of the others.
fn worst_first(found: Vec<LiveDifference>) -> Vec<Drift> {
    let mut by_class = BTreeMap::<DriftClass, Vec<LiveDifference>>::new();
    for difference in found {
        by_class.entry(difference.class.into()).or_default().push(difference);
    }
    let drift = |(class, found): (DriftClass, Vec<LiveDifference>)| {
        let LiveDifference { tool, pointer, what, .. } = found.first()?;
        let mut text = shortened(&format!("{tool}{pointer}: {what}"));
        if found.len() > 1 {
            text = format!("{text} (and {} more)", found.len() - 1);
        }
        Some(Drift { part: DefinitionPart::Card, class, what: text })
    };
    by_class.into_iter().rev().filter_map(drift).collect()
}

fn shortened(text: &str) -> String {
    text.chars().take(KEPT_CHARS).collect()
}
