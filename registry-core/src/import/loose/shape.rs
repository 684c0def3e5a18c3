//! The shape of an entry: its name and version, its fields under their right names.
//!
//! Deliberately absent: what it says of others.

use serde_json::{Map, Value, json};

use super::{Entry, FIRST_VERSION, Loose, is_comment};
use crate::{
    document::pointer_join,
    import::{
        Repairs, names,
        repair::{put, quoted},
    },
    reference::Kind,
};

/// The fields of all kinds, and of each.
const COMMON: [&str; 9] = [
    "name",
    "version",
    "description",
    "metadata",
    "deprecated",
    "retired",
    "deprecationMessage",
    "replacement",
    "sunset",
];

fn fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Schema => &["schema"],
        Kind::Server => &["provides"],
        Kind::Tool => &[
            "title",
            "source",
            "spec",
            "depends",
            "inputSchema",
            "outputSchema",
            "outputTransform",
            "annotations",
        ],
        Kind::Agent => &[
            "url",
            "protocolVersion",
            "defaultInputModes",
            "defaultOutputModes",
            "skills",
            "capabilities",
            "provider",
            "security",
            "securitySchemes",
        ],
    }
}

impl Loose {
    /// Gives all entries of a kind the shape of that kind.
    pub(super) fn shape(&mut self, kind: Kind) {
        let mut shaped = Vec::new();
        for mut entry in std::mem::take(self.of_mut(kind)) {
            entry.map.retain(|name, value| !is_comment(name) && !value.is_null());
            let repairs = &mut self.repairs;
            match kind {
                Kind::Schema => entry.shape_schema(repairs),
                Kind::Server => entry.shape_server(repairs),
                Kind::Tool => entry.shape_tool(repairs),
                Kind::Agent => entry.shape_agent(repairs),
            }
            if entry.shape_key(kind, repairs) {
                entry.move_surplus(kind, repairs);
                entry.shape_lifecycle(repairs);
                shaped.push(entry);
            }
        }
        *self.of_mut(kind) = shaped;
    }
}

impl Entry {
    pub(super) fn at(&self, field: &str) -> String {
        pointer_join(&self.pointer, field)
    }

    /// Takes a field by another name, unless it is there by its own.
    pub(super) fn rename(&mut self, repairs: &mut Repairs, from: &str, to: &str) {
        if self.map.contains_key(to) {
            return;
        }
        if let Some(value) = self.map.remove(from) {
            let what = format!("`{from}` is written `{to}`");
            repairs.made(self.at(from), what, "it was renamed");
            self.map.insert(to.to_owned(), value);
        }
    }

    /// Whether it has a name, and a version unless others must say which.
    fn shape_key(&mut self, kind: Kind, repairs: &mut Repairs) -> bool {
        let said = self.name().to_owned();
        let Some(name) = names::name_of(kind, &said) else {
            let what = format!("{} cannot be made a name", quoted(&said));
            repairs.needed(self.at("name"), what, "the entry was left out");
            return false;
        };
        if name.as_str() != said {
            let what = format!("{} is not allowed as a name", quoted(&said));
            let how = format!("it is `{name}`; what refers to it must say so too");
            repairs.needed(self.at("name"), what, how);
            self.map.insert("name".to_owned(), name.as_str().into());
        }
        let Some(said) = self.map.get("version") else { return true };
        let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        let version = names::version_of(&text);
        let exact = version.as_ref().map_or(FIRST_VERSION.to_owned(), ToString::to_string);
        if said.as_str() != Some(&exact) {
            let what = format!("{} is not an exact version", quoted(&text));
            let how = format!("{exact} is written");
            match version {
                Some(_) => repairs.made(self.at("version"), what, how),
                None => repairs.needed(self.at("version"), what, how),
            }
            self.map.insert("version".to_owned(), exact.into());
        }
        true
    }

    /// Puts what has no field into `metadata`.
    fn move_surplus(&mut self, kind: Kind, repairs: &mut Repairs) {
        let is_known = |name: &str| COMMON.contains(&name) || fields(kind).contains(&name);
        let surplus: Vec<_> = self.map.keys().filter(|name| !is_known(name)).cloned().collect();
        let metadata = self.map.remove("metadata");
        let mut metadata = match metadata {
            Some(Value::Object(map)) => map,
            Some(other) => Map::from_iter([("value".to_owned(), other)]),
            None => Map::new(),
        };
        for name in surplus {
            let what = format!("a {kind} has no field {}", quoted(&name));
            repairs.made(self.at(&name), what, "it is in `metadata`");
            if let Some(value) = self.map.remove(&name) {
                put(&mut metadata, repairs, &self.at(&name), (name, value));
            }
        }
        if !metadata.is_empty() {
            self.map.insert("metadata".to_owned(), metadata.into());
        }
    }

    fn shape_lifecycle(&mut self, repairs: &mut Repairs) {
        let is_set = |name: &str| self.map.get(name) == Some(&Value::Bool(true));
        let is_marked = is_set("deprecated") || is_set("retired");
        if self.map.contains_key("deprecationMessage") && !is_marked {
            let what = "`deprecationMessage` without `deprecated`";
            repairs.made(self.at("deprecationMessage"), what, "\"deprecated\": true is written");
            self.map.insert("deprecated".to_owned(), json!(true));
        }
    }
}
