//! All references resolve and are acyclic at every revision.
//!
//! References from servers to tools are ignored in cycles, because a tool and its server refer to
//! each other. Lifecycles are not checked: a retired entity still exists.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::Violation;
use crate::{closure::edges, history::History};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let log = &history.log;
    let mut edges_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for commit in &log.commits {
        let mut new = Vec::new();
        for (key, entity) in log.state(commit.revision).into_iter().flat_map(|s| &s.entities) {
            if !edges_of.contains_key(key) {
                let document = log.documents.get(&entity.digest).unwrap_or(&Value::Null);
                edges_of.insert(key.clone(), edges(key, document));
                new.push(key.clone());
            }
        }
        for key in &new {
            let dangling = edges_of[key].iter().find(|target| !edges_of.contains_key(*target));
            let dangling =
                dangling.map(|target| format!("{key} refers to {target}, which does not exist"));
            let circle = leads_back(key, &edges_of).then(|| format!("{key} depends on itself"));
            for what in dangling.into_iter().chain(circle) {
                found.push(Violation::new([commit.line], what));
            }
        }
    }
    found
}

fn leads_back(start: &str, edges_of: &BTreeMap<String, Vec<String>>) -> bool {
    let mut waiting = vec![start];
    let mut seen = HashSet::new();
    while let Some(key) = waiting.pop() {
        if key.starts_with("server/") {
            continue;
        }
        for target in edges_of.get(key).into_iter().flatten() {
            if target == start {
                return true;
            }
            if seen.insert(target.as_str()) {
                waiting.push(target);
            }
        }
    }
    false
}
