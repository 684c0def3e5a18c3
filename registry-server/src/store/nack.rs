//! A rejection in three columns: revision, message and findings as JSON.
//!
//! Findings with unknown codes of a newer version are skipped.

use registry_core::{Code, Diagnostic, Key, Revision, Severity, follower::Nack};
use serde::{Deserialize, Serialize};

use super::row::stored;

/// Columns of a rejection; all are null without one.
pub(super) struct NackColumns<'a> {
    pub(super) revision: Option<i64>,
    pub(super) message: Option<&'a str>,
    pub(super) diagnostics: Option<String>,
}

impl<'a> NackColumns<'a> {
    pub(super) fn new(nack: Option<&'a Nack>) -> Self {
        Self {
            revision: nack.map(|nack| stored(nack.revision)),
            message: nack.map(|nack| nack.message.as_str()),
            diagnostics: nack.map(|nack| {
                let found: Vec<_> = nack.diagnostics.iter().map(Finding::from).collect();
                // Strings and numbers always serialize.
                serde_json::to_string(&found).unwrap_or_default()
            }),
        }
    }
}

/// Parses the columns.
pub(super) fn read(
    columns: (Option<i64>, Option<String>, Option<String>),
) -> Result<Option<Nack>, String> {
    let (Some(revision), Some(message), Some(found)) = columns else { return Ok(None) };
    let revision = u64::try_from(revision).map_err(|e| e.to_string())?;
    let found: Vec<Finding> = serde_json::from_str(&found).map_err(|e| e.to_string())?;
    let diagnostics = found.into_iter().filter_map(Finding::into_diagnostic).collect();
    Ok(Some(Nack { revision: Revision(revision), message, diagnostics }))
}

#[derive(Serialize, Deserialize)]
struct Finding {
    code: String,
    is_error: bool,
    entity: Option<String>,
    change: Option<usize>,
    pointer: String,
    message: String,
    help: Option<String>,
}

impl From<&Diagnostic> for Finding {
    fn from(found: &Diagnostic) -> Self {
        let Diagnostic { code, severity, entity, change, pointer, message, help } = found;
        Self {
            code: code.as_str().to_owned(),
            is_error: *severity == Severity::Error,
            entity: entity.as_ref().map(Key::to_string),
            change: *change,
            pointer: pointer.clone(),
            message: message.clone(),
            help: help.clone(),
        }
    }
}

impl Finding {
    fn into_diagnostic(self) -> Option<Diagnostic> {
        let Self { code, is_error, entity, change, pointer, message, help } = self;
        let code = Code::ALL.iter().copied().find(|known| known.as_str() == code)?;
        let severity = if is_error { Severity::Error } else { Severity::Warning };
        let entity = entity.and_then(|key| key.parse().ok());
        Some(Diagnostic { code, severity, entity, change, pointer, message, help })
    }
}
