//! What an import changed, and what is left for a person.
//!
//! Deliberately absent: findings of validation, which are diagnostics.

use serde::Serialize;

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

/// Collects repairs, up to a limit.
#[derive(Debug, Default)]
pub struct Repairs(Vec<Repair>);

impl Repairs {
    fn push(&mut self, repair: Repair) {
        if self.0.len() < limits::PROBLEMS {
            self.0.push(repair);
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
    pub fn into_vec(self) -> Vec<Repair> {
        let mut all = self.0;
        all.sort_by_key(|repair| repair.by);
        all
    }
}

/// A text from outside as a message may quote it: without control characters, and short.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 64;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
