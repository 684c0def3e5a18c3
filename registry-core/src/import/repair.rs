//! What an import changed, and what is left for a person.
//!
//! Deliberately absent: findings of validation, which are diagnostics.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::limits;

/// One thing that was not right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A person must look at it.
    Person,
    /// The import did.
    Import,
}

/// Collects repairs, each once: up to a limit those for people, and so many that were made.
#[derive(Debug, Default)]
pub struct Repairs {
    needed: Vec<Repair>,
    made: Vec<Repair>,
    /// Whether something for a person found no place.
    is_cut: bool,
}

impl Repairs {
    fn push(&mut self, repair: Repair) {
        let list = if repair.by == By::Person { &mut self.needed } else { &mut self.made };
        if list.len() < limits::PROBLEMS {
            if !list.contains(&repair) {
                list.push(repair);
            }
        } else if repair.by == By::Person {
            self.is_cut = true;
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

    /// Takes the repairs of a part that is at this pointer.
    pub(crate) fn all_at(&mut self, pointer: &str, repairs: Vec<Repair>) {
        for repair in repairs {
            self.push(Repair { pointer: format!("{pointer}{}", repair.pointer), ..repair });
        }
    }

    /// All of them, those for people first.
    pub fn into_vec(mut self) -> Vec<Repair> {
        if self.is_cut {
            let what = format!("there is more to look at than {} lines", limits::PROBLEMS);
            let how = "mend what is listed, and import again";
            let (pointer, how) = (String::new(), how.to_owned());
            self.needed.push(Repair { pointer, what, how, by: By::Person });
        }
        self.needed.append(&mut self.made);
        self.needed
    }
}

/// Puts a field from this pointer to its place; where that is taken by another value, says so.
pub(crate) fn put(
    map: &mut Map<String, Value>,
    repairs: &mut Repairs,
    pointer: &str,
    (name, value): (String, Value),
) {
    match map.get(&name) {
        Some(there) if *there != value => {
            let what = format!("`{name}` is there already and says otherwise");
            repairs.needed(pointer, what, "what was there was kept; this was left out");
        }
        Some(_) => {}
        None => drop(map.insert(name, value)),
    }
}

/// A text from outside as a message may quote it: without control characters, and short.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 64;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
