//! Findings of validation.

mod render;

use std::sync::Arc;

use registry_core::{Diagnostic, Severity};
use registry_proto::{convert, v1};
use serde::Serialize;

use crate::{
    input::{Position, Source},
    style::Style,
};

/// One finding.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) code: String,
    pub(crate) severity: Level,
    /// The entity, such as `tool/fetch@1.0.0`.
    pub(crate) entity: Option<String>,
    /// JSON pointer into the file, if one is known, or into the entity.
    pub(crate) pointer: String,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    #[serde(flatten)]
    pub(crate) location: Option<Location>,
    /// Index of the change in the batch.
    #[serde(skip)]
    pub(crate) change: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Error,
    Warning,
}

/// A location in a file.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Location {
    pub(crate) file: String,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    #[serde(skip)]
    source: Arc<Source>,
}

impl Location {
    pub(crate) fn new(source: &Arc<Source>, position: Option<Position>) -> Self {
        Self {
            file: source.name().to_owned(),
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
            source: Arc::clone(source),
        }
    }

    /// The text of the line.
    fn text(&self) -> Option<&str> {
        self.source.line(self.line?)
    }

    /// The key or scalar at the location, as written.
    pub(crate) fn token(&self) -> Option<String> {
        let (text, column) = (self.text()?, self.column?);
        let width = render::token_width(text, column);
        Some(text.chars().skip(column - 1).take(width).collect())
    }
}

impl From<&Diagnostic> for Finding {
    fn from(found: &Diagnostic) -> Self {
        let Diagnostic { code, severity, entity, change, pointer, message, help } = found;
        Self {
            code: code.to_string(),
            severity: match severity {
                Severity::Error => Level::Error,
                Severity::Warning => Level::Warning,
            },
            entity: entity.as_ref().map(ToString::to_string),
            pointer: pointer.clone(),
            message: message.clone(),
            help: help.clone(),
            location: None,
            change: *change,
        }
    }
}

/// Unknown codes of a newer registry are kept unchanged.
impl From<&v1::Diagnostic> for Finding {
    fn from(found: &v1::Diagnostic) -> Self {
        let v1::Diagnostic { code, severity, entity, change, pointer, message, help } = found;
        let is_warning = *severity == i32::from(v1::DiagnosticSeverity::Warning);
        Self {
            code: code.clone(),
            severity: if is_warning { Level::Warning } else { Level::Error },
            entity: entity.as_ref().map(key_text),
            pointer: pointer.clone(),
            message: message.clone(),
            help: help.clone(),
            location: None,
            change: change.and_then(|index| usize::try_from(index).ok()),
        }
    }
}

/// A key as text, also if it is invalid.
pub(crate) fn key_text(key: &v1::EntityKey) -> String {
    let v1::EntityKey { kind, name, version } = key;
    let kind = convert::kind(*kind).map_or("unknown", registry_core::Kind::as_str);
    format!("{kind}/{name}@{version}")
}

/// Maximum number of printed findings.
const SHOWN: usize = 100;

/// Findings, errors first.
#[derive(Debug, Default)]
pub(crate) struct Report {
    findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|found| found.severity);
        Self { findings }
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.count(Level::Error) > 0
    }

    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|found| found.severity == level).count()
    }

    /// `2 errors, 1 warning`; empty without findings.
    pub(crate) fn counts(&self) -> String {
        let count = |level, one: &str| match self.count(level) {
            0 => None,
            1 => Some(format!("1 {one}")),
            more => Some(format!("{more} {one}s")),
        };
        let counts = [count(Level::Error, "error"), count(Level::Warning, "warning")];
        counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The first findings as text, with an empty line after each.
    pub(crate) fn render(&self, style: Style) -> String {
        let shown = self.findings.iter().take(SHOWN);
        let text: String = shown.map(|found| render::finding(found, style)).collect();
        match self.findings.len().saturating_sub(SHOWN) {
            0 => text,
            more => format!("{text}and {more} more findings; --output json lists all\n\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use registry_core::Code;

    use super::*;

    #[test]
    fn reports_list_errors_first_and_are_limited() {
        let warning = Diagnostic::warning(Code::SchemaUnused, "", "unused");
        let error = Diagnostic::error(Code::SourceUnknown, "", "unknown");
        let mut found = vec![Finding::from(&warning); SHOWN + 4];
        found.push(Finding::from(&error));
        let report = Report::new(found);
        assert_eq!(report.counts(), "1 error, 104 warnings");
        let text = report.render(Style::Plain);
        assert!(text.starts_with("error[source-unknown]: unknown\n"), "{text}");
        insta::assert_snapshot!(
            text.trim_end().lines().last().unwrap(),
            @"and 5 more findings; --output json lists all"
        );
    }
}
