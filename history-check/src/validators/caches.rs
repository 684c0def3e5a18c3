//! The files of a gateway's cache are correct past states, and a restarted gateway begins with one
//! of them.
//!
//! A file that the nemesis changed may contain anything, but is loaded only if it is correct.
//! Signatures are not checked.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

use super::{Violation, filtered::differs};
use crate::{
    event::Event,
    history::History,
    journal::{Frame, frames},
    log::Log,
    state::{Entities, Entity, SettingState},
};

/// The file of a journal.
const JOURNAL: &str = "registry-v2.json.log";

/// The checked members of a cache file.
#[derive(Deserialize)]
struct CacheCopy {
    registry: String,
    revision: u64,
    chain: String,
    records: Vec<Entity>,
    #[serde(default)]
    scope: Vec<String>,
    #[serde(default)]
    settings: Vec<SettingState>,
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
    let mut usable: HashMap<&str, LoadableRevisions> = HashMap::new();
    for line in &history.lines {
        let who = line.who.as_str();
        match &line.event {
            Event::Killed {} => drop(usable.insert(who, LoadableRevisions::default())),
            Event::Cache { file, content, spoiled } => {
                let usable = usable.entry(who).or_default();
                usable.lines.push(line.n);
                let problem = if file == JOURNAL {
                    journal(history, content, usable)
                } else {
                    copy(history, content, usable)
                };
                if let Some(what) = problem.filter(|_| !spoiled) {
                    found.push(Violation::new([line.n], format!("the cache of {who}: {what}")));
                }
            }
            Event::Started { revision: Some(revision) } if who.starts_with("gateway-") => {
                let usable = usable.remove(who).unwrap_or_default();
                if !usable.revisions.contains(revision) {
                    let what = format!("{who} loaded revision {revision}, which no valid file has");
                    found.push(Violation::new(usable.lines.into_iter().chain([line.n]), what));
                }
            }
            _ => {}
        }
    }
    found
}

/// The revisions that a gateway may load, with the lines of their files.
#[derive(Default)]
struct LoadableRevisions {
    revisions: BTreeSet<u64>,
    lines: Vec<u64>,
}

/// A defect of a cache file. Without one, its revision may be loaded.
fn copy(history: &History, content: &str, usable: &mut LoadableRevisions) -> Option<String> {
    let copy: CacheCopy = match serde_json::from_str(content) {
        Ok(copy) => copy,
        Err(e) => return Some(format!("it is not valid: {e}")),
    };
    let problem = problem(history, &copy);
    if problem.is_none() {
        usable.revisions.insert(copy.revision);
    }
    problem
}

/// A defect of a journal. Without one, its revisions may be loaded after a matching file.
fn journal(history: &History, content: &str, usable: &mut LoadableRevisions) -> Option<String> {
    for Frame { chain, canonical, documents } in frames(content) {
        let commit: Value = serde_json::from_str(&canonical).unwrap_or_default();
        let revision = commit["revision"].as_u64().unwrap_or_default();
        let is_true = history.log.commit(revision).is_some_and(|commit| {
            commit.canonical == canonical && commit.chain == chain && commit.documents == documents
        });
        if !is_true {
            return Some(format!("its journal has a commit {revision} that differs from the log"));
        }
        if usable.revisions.contains(&(revision.saturating_sub(1))) {
            usable.revisions.insert(revision);
        }
    }
    None
}

/// The document of an entity in a file: the registered one with the members of its lifecycle.
fn document(log: &Log, entity: &Entity) -> Option<Value> {
    let mut document = log.documents.get(&entity.digest)?.clone();
    let lifecycle = entity.lifecycle.as_ref().filter(|lifecycle| lifecycle.state != "active");
    if let Some(lifecycle) = lifecycle {
        document[&lifecycle.state] = true.into();
        if let Some(message) = lifecycle.notice.as_ref().and_then(|notice| notice.get("message")) {
            document["deprecationMessage"] = message.clone();
        }
    }
    Some(document)
}

fn problem(history: &History, copy: &CacheCopy) -> Option<String> {
    let (log, at) = (&history.log, copy.revision);
    if copy.registry != log.registry {
        return Some(format!("it belongs to registry {}", copy.registry));
    }
    if log.chain(at).as_ref() != Some(&copy.chain) {
        return Some(format!("its chain hash at revision {at} is not one of the log"));
    }
    let records = copy.records.iter().map(|entity| (entity.key.clone(), Arc::new(entity.clone())));
    let records: Entities = records.collect();
    let expected = log.part(at, &copy.scope)?;
    if let Some(key) = differs(&expected, &records) {
        return Some(format!("{key} differs from the state at revision {at}"));
    }
    let documents = [&copy.schemas, &copy.servers, &copy.tools, &copy.agents];
    let documents = documents.into_iter().flatten().map(Some);
    let expected = copy.records.iter().map(|entity| document(log, entity));
    if !expected.eq(documents.map(Option::<&Value>::cloned)) {
        return Some("its documents do not match its records".to_owned());
    }
    let state = log.state(at)?;
    let settings = copy.settings.iter().map(|set| (set.target.clone(), set.clone()));
    let is_whole = copy.scope.is_empty();
    let expected = if is_whole { state.settings.clone() } else { state.settings_of(&records) };
    (expected != settings.collect())
        .then(|| format!("its settings differ from those at revision {at}"))
}
