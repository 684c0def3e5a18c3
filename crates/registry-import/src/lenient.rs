//! Registry files of version 1, and incomplete files of version 2.
//!
//! Each entry gets the shape of its kind (`shape`) and its texts are screened. Then missing
//! versions are added (`versions`), and links between entries are completed (`links`). The
//! registry's own rules find the remaining errors, which are reported for review.

mod agent;
mod callee;
mod links;
mod mapping;
mod references;
mod schema;
mod server;
mod shape;
mod spec;
mod tool;
mod versions;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use registry_core::{
    catalog::Catalog, chain::RegistryId, diagnostic::Diagnostic, kind::Kind,
    registry_file::RegistryFile, rules::plan,
};
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value};

use super::{
    Draft, Imported, Repairs, names, origins::Origins, repair::quoted, screening::screen_members,
};

/// The version of an entry that has none and is not referenced by another one.
const FIRST_VERSION: &str = "1.0.0";

/// An entry during its import, and its origin.
#[derive(Debug, Clone)]
struct Entry {
    map: Map<String, Value>,
    pointer: String,
    /// The origins of its members in the file.
    origins: Origins,
}

/// A file during its import.
struct LenientFile<'a> {
    file: &'a Value,
    entries: BTreeMap<Kind, Vec<Entry>>,
    repairs: Repairs,
    /// The places of compositions with a reported problem.
    explained: BTreeSet<String>,
}

/// Repairs a registry file of any version and lists the repairs.
pub fn import_registry_file(file: &Value) -> Imported {
    let (entries, explained) = (BTreeMap::new(), BTreeSet::new());
    let mut lenient = LenientFile { file, entries, repairs: Repairs::default(), explained };
    lenient.read();
    for kind in Kind::ALL {
        lenient.shape(kind);
    }
    lenient.screen();
    lenient.give_versions();
    lenient.name_versions();
    lenient.remove_doubles();
    lenient.shape_specs();
    lenient.link();
    let draft = lenient.draft();
    lenient.say_what_is_left(&draft);
    lenient.repairs.into_result(draft)
}

impl LenientFile<'_> {
    fn entries(&self, kind: Kind) -> &[Entry] {
        self.entries.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn entries_mut(&mut self, kind: Kind) -> &mut Vec<Entry> {
        self.entries.entry(kind).or_default()
    }

    fn read(&mut self) {
        match self.file {
            Value::Object(map) => self.read_object(map),
            Value::Array(_) => {
                self.repairs.made("", "a bare list", "it is taken as `tools`");
                self.read_list(Kind::Tool, self.file, "");
            }
            _ => self.repairs.needed("", "not a registry file", "nothing was imported"),
        }
    }

    fn read_object(&mut self, map: &Map<String, Value>) {
        if !self.read_version(map.get("schemaVersion")) {
            return;
        }
        for kind in Kind::ALL {
            if let Some(list) = map.get(kind.plural()) {
                self.read_list(kind, list, &format!("/{}", kind.plural()));
            }
        }
        let known = [
            "$schema",
            "schemaVersion",
            "$comment",
            "registry",
            "revision",
            "chain",
            "digest",
            "records",
            "scope",
            "attestation",
        ];
        for (name, value) in map {
            let is_known = known.contains(&name.as_str())
                || Kind::ALL.into_iter().any(|kind| kind.plural() == name);
            let at = pointer_join("", name);
            if is_known || value.is_null() {
                continue;
            }
            if is_comment(name) || name == "comment" {
                self.repairs.made(at, "a comment", "it was left out");
            } else {
                let how = "it was left out; data about an entry can be in its `metadata`";
                self.repairs.needed(at, "a registry file has no such member", how);
            }
        }
    }

    /// Whether the version of the file is known. Newer versions may differ in meaning.
    fn read_version(&mut self, said: Option<&Value>) -> bool {
        let at = "/schemaVersion";
        let ours = names::closest_version("2.0").expect("a constant that is a version");
        let said = match said {
            Some(Value::String(said)) => said.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        let what = "this is not marked as a registry file of version 2";
        let how = "\"schemaVersion\": \"2.0\" is written";
        match names::closest_version(&said).map(|version| version.cmp(&ours)) {
            Some(Ordering::Equal) if said == "2.0" => {}
            Some(Ordering::Greater) => {
                let what = format!("a registry file of version {}, newer than 2.0", quoted(&said));
                self.repairs.needed(at, what, "nothing was imported; use a newer registryctl");
                return false;
            }
            None if !said.is_empty() => {
                let what = format!("{} is not a version of registry files", quoted(&said));
                self.repairs.needed(at, what, format!("it was read as one of version 2: {how}"));
            }
            _ => self.repairs.made(at, what, how),
        }
        true
    }

    fn read_list(&mut self, kind: Kind, list: &Value, pointer: &str) {
        match list {
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.read_entry(kind, item, format!("{pointer}/{i}"));
                }
            }
            Value::Object(named) => {
                let what = format!("{} by their names, not as a list", kind.plural());
                self.repairs.made(pointer, what, "they are a list, each with its `name`");
                for (name, item) in named {
                    let mut item = item.clone();
                    if let Value::Object(map) = &mut item {
                        map.entry("name").or_insert_with(|| name.as_str().into());
                    }
                    self.read_entry(kind, &item, pointer_join(pointer, name));
                }
            }
            Value::Null => {}
            _ => self.repairs.needed(pointer, "not a list", "its entries were ignored"),
        }
    }

    fn read_entry(&mut self, kind: Kind, item: &Value, pointer: String) {
        match item {
            Value::Object(map) if !map.keys().all(|name| is_comment(name) || name == "comment") => {
                self.entries_mut(kind).push(Entry::new(map.clone(), pointer));
            }
            Value::Object(_) | Value::Null => {
                self.repairs.made(pointer, "an entry that is only a comment", "it was left out");
            }
            Value::String(text) if text.starts_with("//") || text.starts_with('#') => {
                self.repairs.made(pointer, "an entry that is only a comment", "it was left out");
            }
            _ => self.repairs.needed(pointer, "an entry that is not an object", "it was left out"),
        }
    }

    /// Screens the texts of all entries, which may be copied from untrusted sources.
    fn screen(&mut self) {
        for entry in self.entries.values_mut().flatten() {
            let mut found = Repairs::default();
            entry.map = screen_members(&mut found, &entry.map, "");
            self.repairs.all_from(found, |at| existing(self.file, entry.origins.origin(at)));
        }
    }

    /// Removes entries with duplicate keys; the first one stays.
    fn remove_doubles(&mut self) {
        for kind in Kind::ALL {
            let mut seen: BTreeMap<(String, String), Map<String, Value>> = BTreeMap::new();
            let mut kept = Vec::new();
            for entry in std::mem::take(self.entries_mut(kind)) {
                let Some(first) = seen.get(&entry.key()) else {
                    seen.insert(entry.key(), entry.map.clone());
                    kept.push(entry);
                    continue;
                };
                let (name, version) = entry.key();
                let what = format!("{kind}/{name}@{version} already exists");
                if *first == entry.map {
                    self.repairs.made(&entry.pointer, what, "the copy was left out");
                } else {
                    let how = "it differs and was left out; give it another version";
                    self.repairs.needed(&entry.pointer, what, how);
                }
            }
            *self.entries_mut(kind) = kept;
        }
    }

    fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        for kind in Kind::ALL {
            let values = self.entries(kind).iter().map(|entry| Value::Object(entry.map.clone()));
            *draft.documents_mut(kind) = values.collect();
        }
        draft
    }

    /// Reports all remaining errors in one run: those of unreadable entries, and those between the
    /// others.
    fn say_what_is_left(&mut self, draft: &Draft) {
        let mut errors: Vec<(String, Diagnostic)> = Vec::new();
        let mut rest = draft.clone();
        // The indexes of the readable entries in the draft.
        let mut places: BTreeMap<Kind, Vec<usize>> = BTreeMap::new();
        if let Err(error) = RegistryFile::from_value(&draft.to_value()) {
            errors.extend(error.diagnostics.into_iter().map(|d| (d.pointer.clone(), d)));
            let entry_of = |pointer: &str| pointer.split('/').take(3).collect::<Vec<_>>().join("/");
            let unread: BTreeSet<_> = errors.iter().map(|(at, _)| entry_of(at)).collect();
            for kind in Kind::ALL {
                let is_read = |i: usize| !unread.contains(&format!("/{}/{i}", kind.plural()));
                let entries = draft.documents(kind).iter().enumerate();
                let read = entries.filter(|(i, _)| is_read(*i));
                let (indices, values): (Vec<_>, Vec<_>) = read.map(|(i, v)| (i, v.clone())).unzip();
                *rest.documents_mut(kind) = values;
                places.insert(kind, indices);
            }
        }
        if let Ok(file) = RegistryFile::from_value(&rest.to_value()) {
            let unread =
                |message: &str| unread_keys(draft, &places).any(|key| message.contains(&key));
            let nothing = Catalog::empty(RegistryId::new("import"));
            for found in plan(&nothing, file.proposals()).diagnostics {
                // The errors of an unreadable entry are already listed.
                if !unread(&found.message) {
                    errors.push((in_draft(&file.locate(&found), &places), found));
                }
            }
        }
        for (pointer, found) in errors.into_iter().filter(|(_, found)| found.is_error()) {
            let help = found.help.unwrap_or_else(|| "see the rules of the registry".to_owned());
            let pointer = self.source_of(&pointer);
            if !self.explained.contains(&pointer) {
                self.repairs.needed(pointer, found.message, help);
            }
        }
    }

    /// The pointer into the input for a pointer into the draft.
    fn source_of(&self, pointer: &str) -> String {
        let mut steps = pointer.splitn(4, '/').skip(1);
        let kind = steps.next().and_then(|list| list.parse::<Kind>().ok());
        let index = steps.next().and_then(|index| index.parse::<usize>().ok());
        let entry = kind.zip(index).and_then(|(kind, index)| self.entries(kind).get(index));
        let Some(entry) = entry else { return pointer.to_owned() };
        let rest = steps.next().map(|rest| format!("/{rest}")).unwrap_or_default();
        existing(self.file, entry.origins.origin(&rest))
    }
}

/// The keys of the draft's entries that are not in this list.
fn unread_keys<'d>(
    draft: &'d Draft,
    read: &'d BTreeMap<Kind, Vec<usize>>,
) -> impl Iterator<Item = String> + 'd {
    let unread = |kind: Kind| {
        let read = read.get(&kind);
        let is_unread = move |i: &usize| read.is_some_and(|read| read.binary_search(i).is_err());
        let entries = draft.documents(kind).iter().enumerate().filter(move |(i, _)| is_unread(i));
        entries.filter_map(move |(_, entry)| {
            Some(format!("{kind}/{}@{}", entry["name"].as_str()?, entry["version"].as_str()?))
        })
    };
    Kind::ALL.into_iter().flat_map(unread)
}

/// Converts a pointer into the readable entries to a pointer into the draft.
fn in_draft(pointer: &str, places: &BTreeMap<Kind, Vec<usize>>) -> String {
    let mut steps = pointer.splitn(4, '/').skip(1);
    let (list, index) = (steps.next().unwrap_or_default(), steps.next());
    let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == list);
    let place = kind.and_then(|kind| places.get(&kind)?.get(index?.parse::<usize>().ok()?));
    let rest = steps.next().map(|rest| format!("/{rest}")).unwrap_or_default();
    place.map_or(pointer.to_owned(), |place| format!("/{list}/{place}{rest}"))
}

/// The pointer, or its closest ancestor that exists in the file.
fn existing(file: &Value, mut pointer: String) -> String {
    while file.pointer(&pointer).is_none() {
        pointer.truncate(pointer.rfind('/').unwrap_or_default());
    }
    pointer
}

/// Whether a member is a comment.
fn is_comment(name: &str) -> bool {
    name.starts_with("$comment") || name.starts_with("//") || name.starts_with("_comment")
}

impl Entry {
    fn new(map: Map<String, Value>, pointer: String) -> Self {
        Self { map, origins: Origins::new(&pointer), pointer }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.map.get(name)?.as_str()
    }

    fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.text("version").unwrap_or_default()
    }

    fn key(&self) -> (String, String) {
        (self.name().to_owned(), self.version().to_owned())
    }
}

#[cfg(test)]
mod tests;
