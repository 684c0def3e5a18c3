//! The registry-v2.json document: the source format of teams, and the format of caches and exports.
//!
//! [`RegistryFile::parse`] reads the entities that a team wants to register (version 2; version 1
//! with warnings on how to migrate). [`write`] writes the same format. [`write_export`] adds the
//! members that make the file a verifiable copy of a registry at a revision, and [`read_export`]
//! verifies it. A [`journal`] has the commits after an export.

mod export;
pub mod journal;
mod read;
mod v1;
mod write;

use serde_json::Value;

pub use export::{InvalidExport, read_export, write_export};
pub use read::STATE_MEMBERS;
pub use write::write;

use crate::{
    diagnostic::Diagnostic,
    document::parse_json,
    rules::{Proposed, UnreadEntity},
};

/// A parsed registry file: the proposed changes and their locations in the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RegistryFile {
    proposals: Vec<Proposed>,
    pointers: Vec<String>,
    warnings: Vec<Diagnostic>,
    unread: Vec<UnreadEntity>,
}

/// The file is not a valid registry file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not a registry file: {}", .diagnostics.first().map_or_else(String::new, ToString::to_string))]
pub struct FileError {
    /// All problems with JSON pointers into the file; `change` is absent.
    pub diagnostics: Vec<Diagnostic>,
}

impl RegistryFile {
    /// Parses JSON text.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        let value = parse_json(bytes).map_err(|e| FileError { diagnostics: vec![e.into()] })?;
        Self::from_value(&value)
    }

    /// Parses a JSON value of any source syntax.
    pub fn from_value(value: &Value) -> Result<Self, FileError> {
        let (file, diagnostics) = Self::readable(value);
        if diagnostics.is_empty() { Ok(file) } else { Err(FileError { diagnostics }) }
    }

    /// The readable part of a file, and the problems of the rest.
    pub fn readable(value: &Value) -> (Self, Vec<Diagnostic>) {
        read::read(value)
    }

    /// The entities of the file that could not be read.
    pub fn unread(&self) -> &[UnreadEntity] {
        &self.unread
    }

    /// The proposed changes in file order. Dependencies may come after their dependents.
    pub fn proposals(&self) -> &[Proposed] {
        &self.proposals
    }

    /// Warnings with JSON pointers into the file.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The pointer of the entity of a change: `/servers/2`.
    pub fn pointer(&self, change: usize) -> Option<&str> {
        self.pointers.get(change).map(String::as_str)
    }

    /// The pointer of a finding in the file: the pointer of its entity followed by its own.
    pub fn locate(&self, found: &Diagnostic) -> String {
        let entity = found.change.and_then(|change| self.pointer(change)).unwrap_or_default();
        format!("{entity}{}", found.pointer)
    }
}

#[cfg(test)]
mod tests;
