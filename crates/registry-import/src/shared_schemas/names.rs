//! The names and bodies of the shared schemas.

use std::collections::BTreeMap;

use registry_core::version::Version;
use serde_json::Value;

use super::reference;

/// The shared schemas so far.
pub(super) struct Names {
    prefix: String,
    version: Version,
    bodies: BTreeMap<String, Value>,
}

impl Names {
    pub(super) fn new(prefix: &str, version: &Version) -> Self {
        let prefix = prefix.chars().take(48).collect();
        Self { prefix, version: version.clone(), bodies: BTreeMap::new() }
    }

    /// Adds a schema under a free name derived from `wish`. Returns a reference to it.
    pub(super) fn add(&mut self, wish: &str, body: Value) -> Value {
        let wish = pascal_case(wish);
        let mut name = format!("{}.{wish}", self.prefix);
        let mut number = 2;
        while self.bodies.contains_key(&name) {
            name = format!("{}.{wish}{number}", self.prefix);
            number += 1;
        }
        let reference = reference(&name, &self.version);
        self.bodies.insert(name, body);
        reference
    }

    pub(super) fn into_bodies(self) -> BTreeMap<String, (Version, Value)> {
        let Self { version, bodies, .. } = self;
        bodies.into_iter().map(|(name, body)| (name, (version.clone(), body))).collect()
    }
}

/// `shipping_address` as `ShippingAddress`; at most 64 characters.
fn pascal_case(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut joined = String::new();
    for word in words {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        joined.extend(letters);
    }
    joined.truncate(64);
    if joined.is_empty() { "Schema".to_owned() } else { joined }
}
