//! Converts diagnostics.

use registry_core::{Code, Diagnostic, Severity};

use super::key::InvalidEntityKey;
use crate::v1;

/// An invalid diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDiagnostic {
    /// An unknown code.
    #[error("unknown code `{0}`")]
    Code(String),
    /// An unknown severity.
    #[error("unknown severity {0}")]
    Severity(i32),
    /// An invalid key.
    #[error(transparent)]
    Entity(#[from] InvalidEntityKey),
}

impl From<Severity> for v1::DiagnosticSeverity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

impl From<&Diagnostic> for v1::Diagnostic {
    fn from(diagnostic: &Diagnostic) -> Self {
        let Diagnostic { code, severity, entity, change, pointer, message, help } = diagnostic;
        Self {
            code: code.as_str().to_owned(),
            severity: v1::DiagnosticSeverity::from(*severity).into(),
            entity: entity.as_ref().map(v1::EntityKey::from),
            change: change.and_then(|index| u32::try_from(index).ok()),
            pointer: pointer.clone(),
            message: message.clone(),
            help: help.clone(),
        }
    }
}

impl TryFrom<v1::Diagnostic> for Diagnostic {
    type Error = InvalidDiagnostic;

    fn try_from(diagnostic: v1::Diagnostic) -> Result<Self, InvalidDiagnostic> {
        let v1::Diagnostic { code, severity, entity, change, pointer, message, help } = diagnostic;
        Ok(Self {
            code: read_code(code)?,
            severity: read_severity(severity)?,
            entity: entity.map(TryInto::try_into).transpose()?,
            change: change.and_then(|index| usize::try_from(index).ok()),
            pointer,
            message,
            help,
        })
    }
}

fn read_code(text: String) -> Result<Code, InvalidDiagnostic> {
    let known = Code::ALL.iter().find(|code| code.as_str() == text);
    known.copied().ok_or(InvalidDiagnostic::Code(text))
}

fn read_severity(number: i32) -> Result<Severity, InvalidDiagnostic> {
    match v1::DiagnosticSeverity::try_from(number) {
        Ok(v1::DiagnosticSeverity::Warning) => Ok(Severity::Warning),
        Ok(v1::DiagnosticSeverity::Error) => Ok(Severity::Error),
        Ok(v1::DiagnosticSeverity::Unspecified) | Err(_) => {
            Err(InvalidDiagnostic::Severity(number))
        }
    }
}

/// Writes diagnostics.
pub fn diagnostics(found: &[Diagnostic]) -> Vec<v1::Diagnostic> {
    found.iter().map(v1::Diagnostic::from).collect()
}

/// The type URL of a [`v1::ValidationFailure`] in the details of a status.
pub const VALIDATION_FAILURE_URL: &str = "type.googleapis.com/registry.v1.ValidationFailure";

/// The detail of a rejected batch, errors first.
pub fn validation_failure(found: &[Diagnostic]) -> v1::ValidationFailure {
    let (errors, others): (Vec<_>, Vec<_>) = found.iter().partition(|found| found.is_error());
    let diagnostics = errors.into_iter().chain(others).map(v1::Diagnostic::from).collect();
    v1::ValidationFailure { diagnostics }
}
