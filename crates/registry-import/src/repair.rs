//! The repairs of an import, made and needed.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

use registry_core::{kind::Kind, limits};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Draft;

/// One repair.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Repair {
    /// The JSON Pointer into the input.
    pub pointer: String,
    /// The problem.
    pub what: String,
    /// The repair that was made or is needed.
    pub how: String,
    /// The repairer.
    pub by: RepairedBy,
}

/// The repairer of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RepairedBy {
    /// A person has to review it.
    Person,
    /// The import repaired it.
    Import,
}

/// The number of repairs that are not listed, because there are more than [`limits::REPAIRS`] of
/// their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct UnlistedRepairs {
    /// Repairs for review.
    pub person: usize,
    /// Repairs that the import made.
    pub import: usize,
}

/// The repairs that add entries which the file only names. The registry may have these entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Additions {
    /// Added servers.
    pub servers: usize,
    /// Added tools, and the tools in `provides` of added servers.
    pub tools: usize,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// The documents.
    pub draft: Draft,
    /// The repairs, with pointers into the input.
    pub repairs: Vec<Repair>,
    /// The numbers of unlisted repairs.
    pub unlisted: UnlistedRepairs,
    /// The numbers of repairs that add entries.
    pub added: Additions,
    /// The number of repairs of single values, whose errors name the correct value.
    pub corrected: usize,
}

/// Collects distinct repairs up to the limits, and counts the others.
#[derive(Debug, Default)]
pub struct Repairs {
    needed: Vec<Repair>,
    made: Vec<Repair>,
    unlisted: UnlistedRepairs,
    added: Additions,
    corrected: usize,
    hasher: RandomState,
    /// The hashes of all repairs.
    seen: HashSet<u64>,
}

impl Repairs {
    /// Adds a repair. Returns whether it is new.
    fn push(&mut self, repair: Repair) -> bool {
        if !self.seen.insert(self.hasher.hash_one(&repair)) {
            return false;
        }
        let (list, unlisted) = match repair.by {
            RepairedBy::Person => (&mut self.needed, &mut self.unlisted.person),
            RepairedBy::Import => (&mut self.made, &mut self.unlisted.import),
        };
        if list.len() < limits::REPAIRS {
            list.push(repair);
        } else {
            *unlisted += 1;
        }
        true
    }

    /// Adds a repair that the import made.
    pub fn made(
        &mut self,
        pointer: impl Into<String>,
        what: impl Into<String>,
        how: impl Into<String>,
    ) {
        let (pointer, what, how) = (pointer.into(), what.into(), how.into());
        self.push(Repair { pointer, what, how, by: RepairedBy::Import });
    }

    /// Adds the repair of a single value, whose error names the correct value.
    pub(crate) fn corrected(&mut self, pointer: String, what: String, how: &str) {
        let how = how.to_owned();
        if self.push(Repair { pointer, what, how, by: RepairedBy::Import }) {
            self.corrected += 1;
        }
    }

    /// Adds the repair that an entry of this kind was added.
    pub(crate) fn added(&mut self, kind: Kind, pointer: &str, what: String, how: &str) {
        let (pointer, how) = (pointer.to_owned(), how.to_owned());
        if self.push(Repair { pointer, what, how, by: RepairedBy::Import }) {
            if kind == Kind::Server {
                self.added.servers += 1;
            } else {
                self.added.tools += 1;
            }
        }
    }

    /// Adds a repair for review.
    pub fn needed(
        &mut self,
        pointer: impl Into<String>,
        what: impl Into<String>,
        how: impl Into<String>,
    ) {
        let (pointer, what, how) = (pointer.into(), what.into(), how.into());
        self.push(Repair { pointer, what, how, by: RepairedBy::Person });
    }

    /// The pointers of the repairs for review.
    pub(crate) fn needed_at(&self) -> impl Iterator<Item = &str> {
        self.needed.iter().map(|repair| repair.pointer.as_str())
    }

    /// Adds the repairs of a part. `place` maps their pointers.
    pub(crate) fn all_from(
        &mut self,
        Repairs { needed, made, unlisted, .. }: Self,
        place: impl Fn(&str) -> String,
    ) {
        for repair in needed.into_iter().chain(made) {
            self.push(Repair { pointer: place(&repair.pointer), ..repair });
        }
        self.unlisted.person += unlisted.person;
        self.unlisted.import += unlisted.import;
    }

    /// Builds the result of an import, with the repairs for review first.
    pub(crate) fn into_result(mut self, draft: Draft) -> Imported {
        self.needed.append(&mut self.made);
        let Self { needed, unlisted, added, corrected, .. } = self;
        Imported { draft, repairs: needed, unlisted, added, corrected }
    }
}

/// Inserts a member. Returns whether it is present. An existing member with another value stays and
/// is reported.
pub(crate) fn put(
    map: &mut Map<String, Value>,
    repairs: &mut Repairs,
    pointer: &str,
    (name, value): (String, Value),
) -> bool {
    match map.get(&name) {
        Some(there) if *there != value => {
            let what = format!("`{name}` already exists with another value");
            repairs.needed(pointer, what, "the existing value was kept; this one was left out");
            false
        }
        Some(_) => true,
        None => map.insert(name, value).is_none(),
    }
}

/// An external text for a message: shortened and without control characters.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 64;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
