//! A JSONPath of a composition (RFC 9535), parsed when the composition is read.
//!
//! Deliberately absent: dialects of JSONPath; what RFC 9535 does not know is refused.

use std::fmt;

use serde_json::Value;
use serde_json_path::JsonPath;

use crate::limits;

/// A JSONPath that has been checked.
#[derive(Clone)]
pub struct Path {
    text: String,
    query: JsonPath,
}

/// Why a text is not a JSONPath that we run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// It breaks the grammar of RFC 9535.
    #[error("`{text}` is not a JSONPath: {reason} at character {position}")]
    Syntax {
        /// The path.
        text: String,
        /// What the parser says.
        reason: String,
        /// Where, from 1.
        position: usize,
    },
    /// It is too long.
    #[error("the JSONPath has {0} bytes, {max} are allowed", max = limits::PATH_BYTES)]
    TooLong(usize),
    /// Its brackets are nested too deep.
    #[error("the JSONPath nests brackets deeper than {max} levels", max = limits::PATH_DEPTH)]
    TooDeep,
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
        let query = JsonPath::parse(text).map_err(|e| InvalidPath::Syntax {
            text: text.to_owned(),
            reason: e.message().to_owned(),
            position: e.position(),
        })?;
        Ok(Self { text: text.to_owned(), query })
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The values that it selects, in order.
    pub fn select<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.query.query(value).all()
    }

    /// What it stands for in a projection: nothing is `null`, one value is itself, several are an
    /// array.
    pub fn project(&self, value: &Value) -> Value {
        match self.select(value).as_slice() {
            [] => Value::Null,
            [one] => (*one).clone(),
            several => several.iter().copied().cloned().collect(),
        }
    }
}

/// How deep brackets and parentheses nest; those inside of quotes count too, which only refuses
/// more.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
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
