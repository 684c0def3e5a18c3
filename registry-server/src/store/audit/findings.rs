//! Findings of a verification.

use std::fmt::{self, Display};

use registry_core::limits;

/// Maximum displayed characters of a value.
const MAX_CHARACTERS: usize = 160;

/// A mismatch in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Location: `revision 17`, `tool/fetch@1.0.0`, `the table head`.
    pub location: String,
    /// Description of the mismatch.
    pub problem: String,
}

/// All findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// First findings, up to [`limits::PROBLEMS`].
    pub listed: Vec<Finding>,
    /// Number of omitted findings.
    pub more: u64,
}

impl Findings {
    /// Adds a finding, or counts it if the list is full.
    pub(crate) fn report(&mut self, location: impl Display, problem: impl Display) {
        if self.listed.len() < limits::PROBLEMS {
            let (location, problem) = (location.to_string(), problem.to_string());
            self.listed.push(Finding { location, problem });
        } else {
            self.more += 1;
        }
    }

    /// Compares a column with its expected value.
    pub(super) fn column<'a>(
        &mut self,
        location: impl Display,
        name: &str,
        actual: impl Into<Option<&'a [u8]>>,
        expected: impl Into<Option<&'a str>>,
    ) {
        let (actual, expected) = (actual.into(), expected.into());
        let expected = expected.map(str::as_bytes);
        if actual != expected {
            let (actual, expected) = (Value(actual), Value(expected));
            self.report(
                location,
                format_args!("its column {name} has {actual}, the log says {expected}"),
            );
        }
    }

    /// Compares a numeric column with its expected value.
    pub(super) fn number(
        &mut self,
        location: impl Display,
        name: &str,
        actual: i64,
        expected: i64,
    ) {
        if actual != expected {
            let problem = format_args!("its column {name} has {actual}, the log says {expected}");
            self.report(location, problem);
        }
    }
}

/// A displayed value: quoted, or null. Invalid UTF-8 is escaped.
pub(super) struct Value<'a>(pub(super) Option<&'a [u8]>);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else { return f.write_str("null") };
        let Ok(text) = str::from_utf8(bytes) else {
            let start = &bytes[..bytes.len().min(MAX_CHARACTERS)];
            return write!(
                f,
                "\"{}\" ({} bytes, invalid UTF-8)",
                start.escape_ascii(),
                bytes.len()
            );
        };
        match text.char_indices().nth(MAX_CHARACTERS) {
            None => write!(f, "{text:?}"),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], text.len()),
        }
    }
}
