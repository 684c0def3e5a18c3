//! The bytes that a card's signature covers.

use registry_core::document::canonical_bytes;
use schema_compat::pointer::pointer_join;
use serde::Serialize;
use serde_json::{Value, json};

use crate::json::Object;

/// A reading of section 8.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The members as received.
    Verbatim,
    /// Section 8.4.1: default values are removed, except from required members and from optional
    /// ones that are set.
    RequiredKept,
    /// Sections 8.4.2 and 8.4.3: all default values are removed.
    DefaultsRemoved,
    /// The Python SDK: empty texts, lists and objects are removed, and what becomes empty by that.
    EmptyRemoved,
    /// The same with escapes for characters outside of ASCII, as Python writes JSON by default.
    EmptyRemovedEscaped,
}

/// Required members of 1.0 with values that may be defaults. `description` is required in the card
/// and in skills only.
const REQUIRED: [&str; 22] = [
    "name",
    "version",
    "supportedInterfaces",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
    "id",
    "tags",
    "url",
    "organization",
    "protocolBinding",
    "protocolVersion",
    "location",
    "scheme",
    "flows",
    "openIdConnectUrl",
    "authorizationUrl",
    "tokenUrl",
    "deviceAuthorizationUrl",
    "scopes",
    "signature",
];
/// Members with explicit presence: a default value that is set stays.
const OPTIONAL: [&str; 5] =
    ["documentationUrl", "iconUrl", "streaming", "pushNotifications", "extendedAgentCard"];
/// Members of any content.
const OPEN: [&str; 2] = ["params", "header"];
/// Maps, which are absent if they are empty. Other empty objects are messages, which are present.
const MAPS: [&str; 2] = ["securitySchemes", "schemes"];

impl Variant {
    /// All variants. The first two are the most precise readings.
    pub const ALL: [Self; 5] = [
        Self::Verbatim,
        Self::RequiredKept,
        Self::DefaultsRemoved,
        Self::EmptyRemoved,
        Self::EmptyRemovedEscaped,
    ];

    /// The payload of a signature.
    pub fn payload(self, card: &Value) -> Vec<u8> {
        let mut card = card.clone();
        if let Some(card) = card.as_object_mut() {
            card.remove("signatures");
        }
        match self {
            Self::Verbatim => {}
            Self::RequiredKept => {
                walk(&mut card, &mut Vec::new(), &|name, path, value| {
                    is_default(name, value) && !is_required(name, path)
                });
            }
            Self::DefaultsRemoved => {
                walk(&mut card, &mut Vec::new(), &|name, _, value| is_default(name, value));
            }
            Self::EmptyRemoved | Self::EmptyRemovedEscaped => {
                card = without_empty(card).unwrap_or_else(|| json!({}));
            }
        }
        let bytes = canonical_bytes(&card);
        if self == Self::EmptyRemovedEscaped { escaped(&bytes) } else { bytes }
    }
}

fn is_default(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && MAPS.contains(&name),
    }
}

fn is_required(name: &str, path: &[String]) -> bool {
    // The card itself, or an item of its skills.
    let is_described = path.is_empty() || matches!(path, [skills, _] if skills == "skills");
    REQUIRED.contains(&name) || OPTIONAL.contains(&name) || name == "description" && is_described
}

/// Removes the members that `is_removed` selects, the innermost first.
fn walk(
    value: &mut Value,
    path: &mut Vec<String>,
    is_removed: &dyn Fn(&str, &[String], &Value) -> bool,
) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut().filter(|(name, _)| !is_open(name)) {
                path.push(name.clone());
                walk(value, path, is_removed);
                path.pop();
            }
            members.retain(|name, value| !is_removed(name, path, value));
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                path.push(i.to_string());
                walk(item, path, is_removed);
                path.pop();
            }
        }
        _ => {}
    }
}

fn is_open(name: &str) -> bool {
    OPEN.contains(&name)
}

fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.into()),
        Value::Array(items) => {
            let items: Vec<_> = items.into_iter().filter_map(without_empty).collect();
            (!items.is_empty()).then(|| items.into())
        }
        Value::Object(members) => {
            let members = members.into_iter();
            let members = members.filter_map(|(name, value)| Some((name, without_empty(value)?)));
            let members: Object = members.collect();
            (!members.is_empty()).then(|| members.into())
        }
        other => Some(other),
    }
}

/// Escapes characters outside of ASCII as UTF-16.
fn escaped(json: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(json);
    let mut out = Vec::with_capacity(json.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character as u8);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
    }
    out
}

/// The JSON pointers of members that a variant removes.
pub(super) fn default_values(card: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(card, "", &mut found);
    found
}

fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let at = pointer_join(at, name);
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                if is_default(name, value) || is_empty {
                    found.push(at);
                } else {
                    collect(value, &at, found);
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                collect(item, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}
