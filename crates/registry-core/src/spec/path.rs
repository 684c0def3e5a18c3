//! A JSONPath of a composition (RFC 9535), parsed together with the composition.
//!
//! Evaluation is limited: before a path runs, its maximum cost for the value is computed.

mod shape;

use std::fmt;

use serde_json::Value;
use serde_json_path::JsonPath;

use self::shape::Shape;
pub(super) use self::shape::Size;
use super::eval::{Budget, Reason};
use crate::limits;

/// A valid JSONPath.
#[derive(Clone)]
pub struct Path {
    text: String,
    query: JsonPath,
    shape: Shape,
}

/// A text is not a supported JSONPath.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// It violates the grammar of RFC 9535.
    #[error("`{text}` is not a JSONPath: {reason} at character {position}")]
    Syntax {
        /// The path.
        text: String,
        /// The parser's message.
        reason: String,
        /// The position in characters, starting at 1.
        position: usize,
    },
    /// It is too long.
    #[error("the JSONPath has {0} bytes; the maximum is {max}", max = limits::PATH_BYTES)]
    TooLong(usize),
    /// Its brackets are nested too deep.
    #[error("the JSONPath nests brackets deeper than {max} levels", max = limits::PATH_DEPTH)]
    TooDeep,
    /// Its filters are nested too deep.
    #[error("the JSONPath nests filters deeper than {max} levels", max = limits::PATH_FILTER_DEPTH)]
    FiltersTooDeep,
}

impl Path {
    /// Parses a JSONPath such as `$.items[*].id`.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        if text.len() > limits::PATH_BYTES {
            return Err(InvalidPath::TooLong(text.len()));
        }
        if depth(text) > limits::PATH_DEPTH {
            return Err(InvalidPath::TooDeep);
        }
        if filter_depth(text) > limits::PATH_FILTER_DEPTH {
            return Err(InvalidPath::FiltersTooDeep);
        }
        let query = JsonPath::parse(text).map_err(|e| InvalidPath::Syntax {
            text: text.to_owned(),
            reason: e.message().to_owned(),
            position: e.position(),
        })?;
        Ok(Self { text: text.to_owned(), query, shape: Shape::parse(text) })
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it selects at most one value.
    pub fn is_singular(&self) -> bool {
        !self.shape.is_wide()
    }

    /// Copies of the selected values in order.
    pub(super) fn select_copies(
        &self,
        value: &Value,
        budget: &mut Budget,
    ) -> Result<Vec<Value>, Reason> {
        let selected = self.select(value, budget)?;
        selected.into_iter().map(|value| budget.copy(value, 1)).collect()
    }

    /// The selected values in order.
    pub(super) fn select<'v>(
        &self,
        value: &'v Value,
        budget: &mut Budget,
    ) -> Result<Vec<&'v Value>, Reason> {
        budget.look(self.shape.looks_of_all())?;
        if self.shape.is_wide() {
            let size = budget.measure(value)?;
            budget.look(self.shape.looks(size))?;
        }
        Ok(self.query.query(value).all())
    }
}

/// The nesting depth of brackets and parentheses.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in unquoted(text) {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The nesting depth of filters: brackets with a `?`.
fn filter_depth(text: &str) -> usize {
    let (mut open, mut filters, mut deepest) = (Vec::new(), 0, 0);
    for byte in unquoted(text) {
        match (byte, open.last_mut()) {
            (b'[', _) => open.push(false),
            (b']', Some(is_filter)) => {
                filters -= usize::from(*is_filter);
                open.pop();
            }
            (b'?', Some(is_filter)) => filters += usize::from(!std::mem::replace(is_filter, true)),
            _ => {}
        }
        deepest = deepest.max(filters);
    }
    deepest
}

/// The bytes of a path outside of quotes.
fn unquoted(text: &str) -> impl Iterator<Item = u8> {
    let mut bytes = text.bytes();
    let mut quote = None;
    std::iter::from_fn(move || {
        loop {
            let byte = bytes.next()?;
            match (quote, byte) {
                (None, b'\'' | b'"') => quote = Some(byte),
                (None, _) => return Some(byte),
                (Some(_), b'\\') => drop(bytes.next()),
                (Some(open), _) if open == byte => quote = None,
                (Some(_), _) => {}
            }
        }
    })
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Path {}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}
