//! The files of a gateway's cache are true past states, and after a restart it begins with one of
//! them.
//!
//! Deliberately absent: a file whose bytes the nemesis changed, but for its not being used.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

use super::{Violation, filtered::differs};
use crate::{
    event::Event,
    history::History,
    state::{Entities, Entity, Set},
};

/// What counts of a verified copy.
#[derive(Deserialize)]
struct Copy {
    registry: String,
    revision: u64,
    chain: String,
    records: Vec<Entity>,
    #[serde(default)]
    scope: Vec<String>,
    #[serde(default)]
    settings: Vec<Set>,
    #[serde(default)]
    schemas: Vec<Value>,
    #[serde(default)]
    servers: Vec<Value>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    agents: Vec<Value>,
}

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    // What a gateway may begin with, and the lines that say so.
    let mut usable: HashMap<&str, Vec<(u64, Option<u64>)>> = HashMap::new();
    for line in &history.lines {
        let who = line.who.as_str();
        match &line.event {
            Event::Killed {} => drop(usable.insert(who, Vec::new())),
            Event::Cache { content, spoiled, .. } => {
                let read: Result<Copy, _> = serde_json::from_str(content);
                let revision = read.as_ref().ok().map(|copy| copy.revision);
                if *spoiled {
                    usable.entry(who).or_default().push((line.n, None));
                    continue;
                }
                usable.entry(who).or_default().push((line.n, revision));
                let problem = match read {
                    Ok(copy) => problem(history, &copy),
                    Err(e) => Some(format!("it cannot be read: {e}")),
                };
                let problem = problem.map(|what| format!("the cache of {who}: {what}"));
                found.extend(problem.map(|what| Violation::new([line.n], what)));
            }
            Event::Started { revision: Some(revision) } if who.starts_with("gateway-") => {
                let files = usable.remove(who).unwrap_or_default();
                if !files.iter().any(|(_, usable)| *usable == Some(*revision)) {
                    let what = format!("{who} begins with {revision}, which no good file has");
                    let lines = files.iter().map(|(line, _)| *line).chain([line.n]);
                    found.push(Violation::new(lines, what));
                }
            }
            _ => {}
        }
    }
    found
}

fn problem(history: &History, copy: &Copy) -> Option<String> {
    let (log, at) = (&history.log, copy.revision);
    if copy.registry != log.registry {
        return Some(format!("it is of the registry {}", copy.registry));
    }
    if log.chain(at).as_ref() != Some(&copy.chain) {
        return Some(format!("it is at {at} with a chain hash of nowhere"));
    }
    let records = copy.records.iter().map(|entity| (entity.key.clone(), Arc::new(entity.clone())));
    let records: Entities = records.collect();
    let expected = log.part(at, &copy.scope)?;
    if let Some(key) = differs(&expected, &records) {
        return Some(format!("{key} is not as it was at {at}"));
    }
    let documents = [&copy.schemas, &copy.servers, &copy.tools, &copy.agents];
    let documents = documents.into_iter().flatten();
    let of_records = copy.records.iter().map(|entity| log.documents.get(&entity.digest));
    if !of_records.eq(documents.map(Some)) {
        return Some("its documents are not those of its records".to_owned());
    }
    let state = log.state(at)?;
    let settings = copy.settings.iter().map(|set| (set.on.clone(), set.clone()));
    let is_whole = copy.scope.is_empty();
    let expected = if is_whole { state.settings.clone() } else { BTreeMap::new() };
    (expected != settings.collect()).then(|| format!("its settings are not those at {at}"))
}
