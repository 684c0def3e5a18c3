//! An entity as stored: its canonical bytes (RFC 8785) and their SHA-256 digest.
//!
//! Equal entities have equal bytes regardless of their source syntax, so equal digests mean equal
//! content.

mod canonical;

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use schema_compat::pointer::Location;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::canonical::{canonical_bytes, exact_bytes};
pub use crate::json_text::Strict;
use crate::{
    decode::Problems,
    diagnostic::{Code, Diagnostic},
    edges::edges,
    entity::Entity,
    kind::Kind,
    limits,
    reference::Key,
};

/// A SHA-256 digest, written `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not of the form sha256:<64 lower-case hex digits>")]
pub struct InvalidDigest(String);

impl Digest {
    /// The SHA-256 of these bytes.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Wraps the raw 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses the format of `Display`.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest(text.chars().take(80).collect());
        let digits = text.strip_prefix("sha256:").ok_or_else(invalid)?.as_bytes();
        if digits.len() != 64 {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (hex(pair[0]), hex(pair[1]));
            *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or_else(invalid)?;
        }
        Ok(Self(bytes))
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = *b"sha256:0000000000000000000000000000000000000000000000000000000000000000";
        for (digits, byte) in text[7..].chunks_exact_mut(2).zip(self.0) {
            digits[0] = DIGITS[usize::from(byte >> 4)];
            digits[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// One immutable entity with its canonical form.
///
/// A verified document from a store, stream or cache is parsed once for validation, and again on
/// first access. Most documents of a large registry are never accessed, and a parsed entity takes
/// ten times the memory of its bytes.
#[derive(Debug, Clone)]
pub struct Document {
    key: Key,
    digest: Digest,
    bytes: Bytes,
    edges: Box<[Key]>,
    entity: OnceLock<Entity>,
}

/// Equality of bytes.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.digest == other.digest && self.bytes == other.bytes
    }
}

/// Lets shared documents compare by pointer first.
impl Eq for Document {}

/// Stored or received bytes do not verify as the expected document.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidDocument {
    /// The digest of the bytes is not the expected one.
    #[error("document digest mismatch: computed {actual}, expected {expected}")]
    Digest {
        /// The expected digest.
        expected: Digest,
        /// The computed digest.
        actual: Digest,
    },
    /// The bytes are not JSON.
    #[error("the document is not JSON: {0}")]
    Json(String),
    /// The JSON is not an entity of the expected kind.
    #[error("the document is not of the kind {kind}: {}", .problems.first().map_or_else(String::new, ToString::to_string))]
    Entity {
        /// The expected kind.
        kind: Kind,
        /// All problems of the document.
        problems: Vec<Diagnostic>,
    },
}

impl Document {
    /// The canonical document of an entity. Fails if it exceeds a limit of size, depth or numbers.
    pub fn new(entity: Entity) -> Result<Self, Vec<Diagnostic>> {
        let value = entity.to_value();
        let problems = Problems::default();
        check_bounds(&problems, &value, Location::ROOT, 1);
        let bytes = canonical_bytes(&value);
        if bytes.len() > limits::DOCUMENT_BYTES {
            let (size, limit) = (bytes.len(), limits::DOCUMENT_BYTES);
            let message = format!("the document has {size} bytes; the maximum is {limit}");
            problems.invalid(Location::ROOT, message, "move shared parts into separate schemas");
        }
        if !problems.is_empty() {
            return Err(problems.into_vec());
        }
        let entity = if has_whole_float(&value) { reread(entity.kind(), &bytes)? } else { entity };
        let key = entity.key();
        let (digest, edges) = (Digest::compute(&bytes), edges(&entity).into());
        Ok(Self { key, digest, bytes: bytes.into(), edges, entity: OnceLock::from(entity) })
    }

    /// Parses an entity of this kind from JSON and reports all problems.
    pub fn parse(kind: Kind, value: &Value) -> Result<Self, Vec<Diagnostic>> {
        Self::from_value(kind, value.clone())
    }

    /// The same without a copy of the open JSON.
    pub fn from_value(kind: Kind, value: Value) -> Result<Self, Vec<Diagnostic>> {
        Self::new(Entity::from_value(kind, value)?)
    }

    /// Verifies canonical bytes from a store, stream or cache against their digest.
    pub fn verify(kind: Kind, bytes: Bytes, expected: Digest) -> Result<Self, InvalidDocument> {
        let actual = Digest::compute(&bytes);
        if actual != expected {
            return Err(InvalidDocument::Digest { expected, actual });
        }
        let entity = read(kind, &bytes)?;
        let (key, edges) = (entity.key(), edges(&entity).into());
        Ok(Self { key, digest: actual, bytes, edges, entity: OnceLock::new() })
    }

    /// The same document without its parsed entity, which is parsed again on first access.
    #[must_use]
    pub fn without_entity(&self) -> Self {
        let Self { key, digest, bytes, edges, entity: _ } = self;
        let (key, bytes, edges) = (key.clone(), bytes.clone(), edges.clone());
        Self { key, digest: *digest, bytes, edges, entity: OnceLock::new() }
    }

    /// The entity's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The SHA-256 of the canonical bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The canonical bytes (RFC 8785).
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The entity, parsed on first access.
    pub fn entity(&self) -> &Entity {
        self.entity.get_or_init(|| {
            // These bytes were parsed successfully before.
            read(self.key.kind, &self.bytes).expect("a proved document is an entity")
        })
    }

    /// Whether the entity may have a JSON Schema with `pattern` or `patternProperties`.
    pub fn may_have_pattern(&self) -> bool {
        // Canonical JSON does not escape letters. The search in a text is several times faster than in bytes.
        str::from_utf8(&self.bytes).is_ok_and(|text| text.contains("\"pattern"))
    }

    /// The keys of all references of the entity, in document order.
    pub fn edges(&self) -> &[Key] {
        &self.edges
    }
}

fn read(kind: Kind, bytes: &[u8]) -> Result<Entity, InvalidDocument> {
    let value: Value = parse_text(bytes).map_err(|e| InvalidDocument::Json(e.to_string()))?;
    Entity::from_value(kind, value).map_err(|problems| InvalidDocument::Entity { kind, problems })
}

/// Parses JSON text. Checking UTF-8 once is faster than in each string.
fn parse_text<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    match str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        // The error has the place of the invalid character.
        Err(_) => serde_json::from_slice(bytes),
    }
}

/// Reports nesting and numbers that other JSON parsers could not handle.
fn check_bounds(problems: &Problems, value: &Value, at: Location<'_>, depth: usize) {
    if depth > limits::DOCUMENT_DEPTH {
        let message = format!("nested deeper than {} levels", limits::DOCUMENT_DEPTH);
        problems.invalid(at, message, "flatten it, or move parts into separate schemas");
        return;
    }
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                check_bounds(problems, item, at.index(i), depth + 1);
            }
        }
        Value::Object(map) => {
            for (name, member) in map {
                check_bounds(problems, member, at.member(name), depth + 1);
            }
        }
        Value::Number(number) if !is_exact(number) => {
            let message =
                format!("the number {number} is outside of ±2^53 and would lose precision");
            problems.invalid(at, message, "write it as a string");
        }
        _ => {}
    }
}

/// Whether there is a number like `1.0` or `-0.0`, whose canonical form is an integer.
fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Object(map) => map.values().any(has_whole_float),
        _ => false,
    }
}

/// The entity as parsed from its canonical bytes.
fn reread(kind: Kind, bytes: &[u8]) -> Result<Entity, Vec<Diagnostic>> {
    let value = parse_json(bytes).map_err(|error| vec![error.into()])?;
    Entity::from_value(kind, value)
}

/// Whether the canonical form preserves the number. Fractions are as exact as their writer could
/// make them. Numbers beyond ±2^53 are always integers: `1e17` has the canonical form
/// `100000000000000000`.
fn is_exact(number: &serde_json::Number) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    const LARGEST: f64 = limits::SAFE_INTEGER as f64;
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.unsigned_abs() <= limits::SAFE_INTEGER.unsigned_abs(),
        (None, value) => value.is_some_and(|value| value.abs() <= LARGEST),
    }
}

/// The text is not valid JSON, repeats a member name, or is nested too deep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
pub struct InvalidJson {
    /// The problem: `not valid JSON: …` or `JSON nested deeper than … levels`.
    pub reason: String,
    /// Line number, starting at 1.
    pub line: usize,
    /// Byte offset in the line, starting at 1; 0 means the end of the previous line.
    pub column: usize,
}

impl InvalidJson {
    /// The remedy for every such error.
    pub const HELP: &str = "correct the text at that line and column";
}

impl From<InvalidJson> for Diagnostic {
    fn from(error: InvalidJson) -> Self {
        Self::error(Code::DocumentInvalid, "", error.to_string()).with_help(InvalidJson::HELP)
    }
}

/// Parses JSON text. A repeated member name in one object is an error.
pub fn parse_json(bytes: &[u8]) -> Result<Value, InvalidJson> {
    parse_text(bytes).map(|Strict(value)| value).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        let text = e.to_string();
        let place = format!(" at line {line} column {column}");
        let reason = match text.strip_suffix(&place).unwrap_or(&text) {
            // Valid JSON whose depth exceeds the limit of `serde_json`.
            "recursion limit exceeded" => {
                format!("JSON nested deeper than {} levels", limits::JSON_DEPTH)
            }
            reason => format!("not valid JSON: {reason}"),
        };
        InvalidJson { reason, line, column }
    })
}

#[cfg(test)]
mod tests;
