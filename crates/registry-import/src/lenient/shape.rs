//! The shape of an entry: its name, its version, and its fields under their current names.

use registry_core::{kind::Kind, registry_file::STATE_MEMBERS, suggest::closest};
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use super::{Entry, FIRST_VERSION, LenientFile, is_comment};
use crate::{
    Repairs, names,
    repair::{put, quoted},
};

/// Fields of all kinds that keep their meaning, also in an agent that is imported as a card.
pub(super) const OWN: [&str; 6] =
    ["metadata", "deprecated", "retired", "deprecationMessage", "replacement", "sunsetDate"];

/// The other fields of a kind.
fn fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Schema => &["schema"],
        Kind::Server => &["provides", "exposes"],
        Kind::Tool => &[
            "title",
            "source",
            "spec",
            "depends",
            "inputSchema",
            "outputSchema",
            "outputTransform",
            "annotations",
            "execution",
            "_meta",
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
        // All members of a policy stay.
        Kind::Policy => &[],
    }
}

impl LenientFile<'_> {
    /// Gives all entries of a kind the shape of that kind.
    pub(super) fn shape(&mut self, kind: Kind) {
        let mut shaped = Vec::new();
        for mut entry in std::mem::take(self.entries_mut(kind)) {
            entry.map.retain(|name, value| !is_comment(name) && !value.is_null());
            let repairs = &mut self.repairs;
            entry.shape_metadata(repairs);
            match kind {
                Kind::Schema => entry.shape_schema(repairs),
                Kind::Server => entry.shape_server(repairs),
                Kind::Tool => entry.shape_tool(repairs),
                Kind::Agent => entry.shape_agent(repairs),
                Kind::Policy => {}
            }
            if entry.shape_key(kind, repairs) {
                // A misspelled `authorization` in `metadata` would make a policy that enforces nothing.
                // Registration rejects unknown members that stay.
                if kind != Kind::Policy {
                    entry.move_surplus(kind, repairs);
                }
                entry.shape_lifecycle(repairs);
                shaped.push(entry);
            }
        }
        *self.entries_mut(kind) = shaped;
    }
}

impl Entry {
    /// The pointer to a field in the file.
    pub(super) fn at(&self, field: &str) -> String {
        self.origins.origin(&pointer_join("", field))
    }

    /// Renames a field, unless the new name exists.
    pub(super) fn rename(&mut self, repairs: &mut Repairs, from: &str, to: &str) {
        if self.map.contains_key(to) {
            return;
        }
        if let Some(value) = self.map.remove(from) {
            let what = format!("`{from}` is written `{to}`");
            repairs.made(self.at(from), what, "it was renamed");
            self.origins.moved(pointer_join("", to), self.at(from));
            self.map.insert(to.to_owned(), value);
        }
    }

    /// Whether the entry has a usable name. Missing versions are added later.
    pub(super) fn shape_key(&mut self, kind: Kind, repairs: &mut Repairs) -> bool {
        let said = self.name().to_owned();
        let Some(name) = names::closest_name(kind, &said) else {
            let what = names::no_name(self.map.get("name"), "a");
            repairs.needed(self.at("name"), what, "the entry was left out");
            return false;
        };
        if name.as_str() != said {
            let what = format!("{} is not allowed as a name", quoted(&said));
            let how = format!("it is `{name}`; references to it must use this name");
            repairs.needed(self.at("name"), what, how);
            self.map.insert("name".to_owned(), name.as_str().into());
        }
        if let Some(said) = self.map.get("version") {
            let at = self.at("version");
            let exact = names::exact_version(repairs, said, &at, FIRST_VERSION);
            self.map.insert("version".to_owned(), exact.into());
        }
        true
    }

    fn shape_metadata(&mut self, repairs: &mut Repairs) {
        let at = self.at("metadata");
        if let Some(other) = self.map.get_mut("metadata").filter(|value| !value.is_object()) {
            let what = "`metadata` is not an object".to_owned();
            repairs.corrected(at.clone(), what, "it is the `value` of one");
            self.origins.moved("/metadata/value", at);
            *other = json!({ "value": other.take() });
        }
    }

    /// Moves unknown members into `metadata`. A likely typo of a field stays, so that registration
    /// rejects it: a tool whose `inputschema` was moved would have no input schema. A state stays too: a
    /// retired tool would become active.
    fn move_surplus(&mut self, kind: Kind, repairs: &mut Repairs) {
        let known: Vec<&str> =
            [&["name", "version", "description"][..], &OWN, fields(kind)].concat();
        let is_surplus = |name: &&String| {
            !known.contains(&name.as_str())
                && !STATE_MEMBERS.contains(&name.as_str())
                && closest(name, known.iter().copied()).is_none()
        };
        let surplus: Vec<_> = self.map.keys().filter(is_surplus).cloned().collect();
        let mut metadata = match self.map.remove("metadata") {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        for name in surplus {
            let at = self.at(&name);
            let what = format!("a {kind} has no field {}", quoted(&name));
            let to = pointer_join("/metadata", &name);
            if let Some(field) = self.map.remove_entry(&name)
                && put(&mut metadata, repairs, &at, field)
            {
                repairs.made(&at, what, "it is in `metadata`");
                self.origins.moved(to, at);
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
