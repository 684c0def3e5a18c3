//! The registry-v2.json document: what teams write, and what caches and exports hold.
//!
//! [`RegistryFile::parse`] reads what a team wants registered (v2; v1 with warnings that say how
//! to migrate). [`write`] gives the same form back. [`write_export`] adds what makes the file a
//! verified copy of a registry at a revision, and [`read_export`] proves it before it is used.

mod export;
mod read;
mod v1;
mod write;

use serde_json::Value;

pub use export::{InvalidExport, read_export, write_export};
pub use write::write;

use crate::{diagnostic::Diagnostic, document::parse_json, rules::Proposed};

/// A registry file that was read: what it wants changed, and where each wish is written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RegistryFile {
    proposals: Vec<Proposed>,
    pointers: Vec<String>,
    warnings: Vec<Diagnostic>,
}

/// A file that is not a registry file; every problem, each at its pointer into the file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not a registry file: {}", .diagnostics.first().map_or_else(String::new, ToString::to_string))]
pub struct FileError {
    /// Everything that is wrong; pointers lead into the file, `change` is absent.
    pub diagnostics: Vec<Diagnostic>,
}

impl RegistryFile {
    /// Reads JSON text.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        let value = parse_json(bytes).map_err(|e| FileError { diagnostics: vec![e.into()] })?;
        Self::from_value(&value)
    }

    /// Reads a value, whatever text it came from.
    pub fn from_value(value: &Value) -> Result<Self, FileError> {
        read::read(value)
    }

    /// What the file wants changed, in its order: dependencies may come later than what needs them.
    pub fn proposals(&self) -> &[Proposed] {
        &self.proposals
    }

    /// What reading found that does not keep the file out; pointers lead into the file.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The pointer of the entity that a change is about: `/servers/2`.
    pub fn pointer(&self, change: usize) -> Option<&str> {
        self.pointers.get(change).map(String::as_str)
    }

    /// Where in the file a finding is: the entity's pointer and the finding's own.
    pub fn locate(&self, found: &Diagnostic) -> String {
        let entity = found.change.and_then(|change| self.pointer(change)).unwrap_or_default();
        format!("{entity}{}", found.pointer)
    }
}

#[cfg(test)]
mod tests;
