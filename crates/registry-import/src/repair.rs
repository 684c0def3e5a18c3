//! What an import changed, and what is left for a person.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

use registry_core::limits;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Draft;

/// One thing that was not right.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Repair {
    /// JSON pointer into what was imported.
    pub pointer: String,
    /// What is wrong there.
    pub what: String,
    /// What was done about it, or is to be done.
    pub how: String,
    /// By whom.
    pub by: By,
}

/// Who repairs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A person must look at it.
    Person,
    /// The import did.
    Import,
}

/// How many repairs are not listed, because there are more than [`limits::REPAIRS`] of their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Unlisted {
    /// Of those that a person must look at.
    pub person: usize,
    /// Of those that the import made.
    pub import: usize,
}

/// What an import made of its input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// The documents.
    pub draft: Draft,
    /// What was changed, and what a person must do; pointers lead into the input.
    pub repairs: Vec<Repair>,
    /// How many more there are.
    pub unlisted: Unlisted,
}

/// Collects repairs, each once: so many for people, so many that were made, and counts the rest.
#[derive(Debug, Default)]
pub struct Repairs {
    needed: Vec<Repair>,
    made: Vec<Repair>,
    unlisted: Unlisted,
    hasher: RandomState,
    /// The hashes of all of them.
    seen: HashSet<u64>,
}

impl Repairs {
    fn push(&mut self, repair: Repair) {
        if !self.seen.insert(self.hasher.hash_one(&repair)) {
            return;
        }
        let (list, unlisted) = match repair.by {
            By::Person => (&mut self.needed, &mut self.unlisted.person),
            By::Import => (&mut self.made, &mut self.unlisted.import),
        };
        if list.len() < limits::REPAIRS {
            list.push(repair);
        } else {
            *unlisted += 1;
        }
    }

    /// Something that the import has repaired.
    pub fn made(
        &mut self,
        pointer: impl Into<String>,
        what: impl Into<String>,
        how: impl Into<String>,
    ) {
        let (pointer, what, how) = (pointer.into(), what.into(), how.into());
        self.push(Repair { pointer, what, how, by: By::Import });
    }

    /// Something that a person must look at.
    pub fn needed(
        &mut self,
        pointer: impl Into<String>,
        what: impl Into<String>,
        how: impl Into<String>,
    ) {
        let (pointer, what, how) = (pointer.into(), what.into(), how.into());
        self.push(Repair { pointer, what, how, by: By::Person });
    }

    /// The places of the repairs for people.
    pub(crate) fn needed_at(&self) -> impl Iterator<Item = &str> {
        self.needed.iter().map(|repair| repair.pointer.as_str())
    }

    /// Takes the repairs of a part, of whose pointers this says where they lead.
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

    /// What an import made, with all of them, those for people first.
    pub(crate) fn of(mut self, draft: Draft) -> Imported {
        self.needed.append(&mut self.made);
        Imported { draft, repairs: self.needed, unlisted: self.unlisted }
    }
}

/// Puts a field from this pointer to its place, and says whether it is there; where that is taken by
/// another value, a person must look.
pub(crate) fn put(
    map: &mut Map<String, Value>,
    repairs: &mut Repairs,
    pointer: &str,
    (name, value): (String, Value),
) -> bool {
    match map.get(&name) {
        Some(there) if *there != value => {
            let what = format!("`{name}` is there already and says otherwise");
            repairs.needed(pointer, what, "what was there was kept; this was left out");
            false
        }
        Some(_) => true,
        None => map.insert(name, value).is_none(),
    }
}

/// A text from outside as a message may quote it: without control characters, and short.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 64;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
