//! What a verification found, in words.

use std::fmt::{self, Display};

use registry_core::limits;

/// How many characters of a value are shown.
const SHOWN: usize = 160;

/// Something in the database that is not what was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where: `revision 17`, `tool/fetch@1.0.0`, `the table head`.
    pub place: String,
    /// What does not fit.
    pub problem: String,
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first of them, at most [`limits::PROBLEMS`].
    pub listed: Vec<Finding>,
    /// How many more there are.
    pub more: u64,
}

impl Findings {
    /// Adds one, or counts it where there are enough.
    pub(crate) fn report(&mut self, place: impl Display, problem: impl Display) {
        if self.listed.len() < limits::PROBLEMS {
            let (place, problem) = (place.to_string(), problem.to_string());
            self.listed.push(Finding { place, problem });
        } else {
            self.more += 1;
        }
    }

    /// Holds a column against what it should have.
    pub(super) fn column<'a>(
        &mut self,
        place: impl Display,
        name: &str,
        has: impl Into<Option<&'a [u8]>>,
        said: impl Into<Option<&'a str>>,
    ) {
        let (has, said) = (has.into(), said.into());
        let said = said.map(str::as_bytes);
        if has != said {
            let (has, said) = (Value(has), Value(said));
            self.report(place, format_args!("its column {name} has {has}, the log says {said}"));
        }
    }

    /// The same for a column of numbers.
    pub(super) fn number(&mut self, place: impl Display, name: &str, has: i64, said: i64) {
        if has != said {
            let problem = format_args!("its column {name} has {has}, the log says {said}");
            self.report(place, problem);
        }
    }
}

/// A value of a column: quoted, or null. What is no text has its bytes escaped.
pub(super) struct Value<'a>(pub(super) Option<&'a [u8]>);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else { return f.write_str("null") };
        let Ok(text) = str::from_utf8(bytes) else {
            let shown = &bytes[..bytes.len().min(SHOWN)];
            return write!(f, "\"{}\" ({} bytes, no UTF-8)", shown.escape_ascii(), bytes.len());
        };
        match text.char_indices().nth(SHOWN) {
            None => write!(f, "{text:?}"),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], text.len()),
        }
    }
}
