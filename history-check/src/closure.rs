//! References of entities and contents of scopes, computed from their definitions over all
//! documents.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::state::{Entities, Entity};

/// The documents of a log by their digests.
pub type Documents = BTreeMap<String, Value>;

/// The SBOM extension of an agent's card.
const SBOM: &str = "urn:agentgateway:sbom";

/// The keys that a document refers to.
pub fn edges(key: &str, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match key.split('/').next() {
        Some("schema") => schemas(&document["schema"], &mut found),
        Some("server") => {
            for provided in list(&document["provides"]) {
                found.push(named("tool", &provided["tool"], &provided["version"]));
            }
        }
        Some("tool") => {
            schemas(&document["inputSchema"], &mut found);
            schemas(&document["outputSchema"], &mut found);
            if let Some(source) = document.get("source") {
                found.push(named("server", &source["server"], &source["serverVersion"]));
            }
            found.extend(list(&document["depends"]).iter().map(dependency));
        }
        _ => {
            for skill in list(&document["skills"]) {
                schemas(&skill["inputSchema"], &mut found);
                schemas(&skill["outputSchema"], &mut found);
            }
            let extensions = list(&document["capabilities"]["extensions"]).iter();
            for sbom in extensions.filter(|extension| extension["uri"] == SBOM) {
                found.extend(list(&sbom["params"]["depends"]).iter().map(dependency));
            }
        }
    }
    found
}

fn schemas(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                let target = member.as_str().filter(|_| name == "$ref");
                let target = target.and_then(|text| text.strip_prefix('#')?.split_once(':'));
                match target {
                    Some((name, version)) => found.push(format!("schema/{name}@{version}")),
                    None => schemas(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| schemas(item, found)),
        _ => {}
    }
}

fn dependency(depends: &Value) -> String {
    named(depends["type"].as_str().unwrap_or_default(), &depends["name"], &depends["version"])
}

fn named(kind: &str, name: &Value, version: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{kind}/{}@{}", text(name), text(version))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The entities in a scope: the roots, their dependencies, and the tools that root servers provide.
/// No roots select everything.
pub fn closure(entities: &Entities, documents: &Documents, roots: &[String]) -> Entities {
    if roots.is_empty() {
        return entities.clone();
    }
    let null = Value::Null;
    let document = |entity: &Entity| documents.get(&entity.digest).unwrap_or(&null);
    let mut waiting: Vec<String> = Vec::new();
    for (key, entity) in entities {
        if roots.iter().any(|root| names(root, entity, document(entity))) {
            waiting.push(key.clone());
            if key.starts_with("server/") {
                waiting.extend(edges(key, document(entity)));
            }
        }
    }
    let mut found = Entities::new();
    while let Some(key) = waiting.pop() {
        let Some(entity) = entities.get(&key) else { continue };
        let is_new = found.insert(key.clone(), entity.clone()).is_none();
        if is_new && !key.starts_with("server/") {
            waiting.extend(edges(&key, document(entity)));
        }
    }
    found
}

/// Whether a root selects this entity directly.
fn names(root: &str, entity: &Entity, document: &Value) -> bool {
    let Some((name, _)) = entity.key.split_once('@') else { return false };
    if let Some(tag) = root.strip_prefix("tag:") {
        return entity.is_active() && tags(document).contains(tag);
    }
    if let Some(wild) = root.strip_suffix("@*") {
        return entity.is_active() && name == wild;
    }
    if let Some(namespace) = root.strip_suffix('*') {
        let (_, own) = name.split_once('/').unwrap_or_default();
        return entity.is_active() && own.starts_with(namespace);
    }
    entity.key == root
}

fn tags(document: &Value) -> HashSet<&str> {
    let own = list(&document["metadata"]["tags"]).iter();
    let skills = list(&document["skills"]).iter().flat_map(|skill| list(&skill["tags"]));
    own.chain(skills).filter_map(Value::as_str).collect()
}
