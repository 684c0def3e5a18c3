//! An entity as it is stored: its canonical bytes (RFC 8785) and their SHA-256 digest.
//!
//! Two front ends that build the same entity get the same bytes, so equality of digests is
//! equality of content.

mod canonical;

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use schema_compat::pointer::At;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::canonical::{canonical_bytes, exact_bytes};
use crate::{
    decode::Problems,
    diagnostic::{Code, Diagnostic},
    edges::edges,
    entity::Entity,
    json_text::Strict,
    kind::Kind,
    limits,
    reference::Key,
};

/// A SHA-256 digest, written `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not of the form sha256:<64 lower-case hex digits>")]
pub struct InvalidDigest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// From the raw 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses what `Display` writes.
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
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        f.write_str(&text)
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
/// What comes proved from a store, a stream or a cache is read once to see that it is an entity,
/// and again only when somebody looks at it: most of a big registry is never looked at, and an
/// entity takes ten times the memory of its bytes.
#[derive(Debug, Clone)]
pub struct Document {
    key: Key,
    digest: Digest,
    bytes: Bytes,
    edges: Box<[Key]>,
    entity: OnceLock<Entity>,
}

/// Equal bytes are equal documents.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.digest == other.digest && self.bytes == other.bytes
    }
}

/// So that one and the same document in two places is equal at a glance.
impl Eq for Document {}

/// Why stored or received bytes are not the document that they should be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidDocument {
    /// The bytes do not have the digest that names them.
    #[error("the document's bytes have the digest {actual}, not {expected}")]
    Digest {
        /// What was promised.
        expected: Digest,
        /// What the bytes have.
        actual: Digest,
    },
    /// The bytes are not JSON.
    #[error("the document is not JSON: {0}")]
    Json(String),
    /// The JSON is not an entity of that kind.
    #[error("the document is not of the kind {kind}: {}", .problems.first().map_or_else(String::new, ToString::to_string))]
    Entity {
        /// The kind that was expected.
        kind: Kind,
        /// Everything that is wrong with it.
        problems: Vec<Diagnostic>,
    },
}

impl Document {
    /// The canonical document of an entity. Fails where the entity breaks a size, depth or number
    /// limit.
    pub fn new(entity: Entity) -> Result<Self, Vec<Diagnostic>> {
        let value = entity.to_value();
        let problems = Problems::default();
        check_bounds(&problems, &value, At::ROOT, 1);
        let bytes = canonical_bytes(&value);
        if bytes.len() > limits::DOCUMENT_BYTES {
            let (size, limit) = (bytes.len(), limits::DOCUMENT_BYTES);
            let message = format!("the document has {size} bytes, {limit} are allowed");
            problems.invalid(At::ROOT, message, "move shared parts into schemas of their own");
        }
        if !problems.is_empty() {
            return Err(problems.into_vec());
        }
        let entity = if has_whole_float(&value) { reread(entity.kind(), &bytes)? } else { entity };
        let key = entity.key();
        let (digest, edges) = (Digest::of(&bytes), edges(&entity).into());
        Ok(Self { key, digest, bytes: bytes.into(), edges, entity: OnceLock::from(entity) })
    }

    /// Reads an entity of this kind from JSON, with every problem that it has.
    pub fn parse(kind: Kind, value: &Value) -> Result<Self, Vec<Diagnostic>> {
        Self::new(Entity::parse(kind, value)?)
    }

    /// Takes canonical bytes from the store, a stream or a cache, and proves them by their digest.
    pub fn verify(kind: Kind, bytes: Bytes, expected: Digest) -> Result<Self, InvalidDocument> {
        let actual = Digest::of(&bytes);
        if actual != expected {
            return Err(InvalidDocument::Digest { expected, actual });
        }
        let entity = read(kind, &bytes)?;
        let (key, edges) = (entity.key(), edges(&entity).into());
        Ok(Self { key, digest: actual, bytes, edges, entity: OnceLock::new() })
    }

    /// The same without its entity, which is read again when somebody looks at it.
    #[must_use]
    pub fn unread(&self) -> Self {
        let Self { key, digest, bytes, edges, entity: _ } = self;
        let (key, bytes, edges) = (key.clone(), bytes.clone(), edges.clone());
        Self { key, digest: *digest, bytes, edges, entity: OnceLock::new() }
    }

    /// What it is called.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// SHA-256 of the canonical bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The canonical bytes (RFC 8785).
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The entity itself.
    pub fn entity(&self) -> &Entity {
        self.entity.get_or_init(|| {
            // Immutable bytes that were read before can be read again.
            read(self.key.kind, &self.bytes).expect("a proved document is an entity")
        })
    }

    /// Every key that the entity refers to, in the order of its document.
    pub fn edges(&self) -> &[Key] {
        &self.edges
    }
}

fn read(kind: Kind, bytes: &[u8]) -> Result<Entity, InvalidDocument> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|e| InvalidDocument::Json(e.to_string()))?;
    Entity::parse(kind, &value).map_err(|problems| InvalidDocument::Entity { kind, problems })
}

/// Reports nesting and numbers that other JSON readers could not take.
fn check_bounds(problems: &Problems, value: &Value, at: At<'_>, depth: usize) {
    if depth > limits::DOCUMENT_DEPTH {
        let message = format!("nested deeper than {} levels", limits::DOCUMENT_DEPTH);
        problems.invalid(at, message, "flatten it, or move parts into schemas of their own");
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
            let message = format!("the number {number} is beyond ±2^53 and would lose digits");
            problems.invalid(at, message, "write it as a string");
        }
        _ => {}
    }
}

/// Whether there is a number like `1.0` or `-0.0`, whose canonical form is that of an integer.
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

/// The entity as everybody else reads it from its canonical bytes.
fn reread(kind: Kind, bytes: &[u8]) -> Result<Entity, Vec<Diagnostic>> {
    let value = parse_json(bytes).map_err(|error| vec![error.into()])?;
    Entity::parse(kind, &value)
}

/// A fraction is as exact as its writer could make it; what is beyond ±2^53 is always whole, and
/// `1e17` has the canonical form `100000000000000000`.
fn is_exact(number: &serde_json::Number) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    const LARGEST: f64 = limits::SAFE_INTEGER as f64;
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.unsigned_abs() <= limits::SAFE_INTEGER.unsigned_abs(),
        (None, value) => value.is_some_and(|value| value.abs() <= LARGEST),
    }
}

/// A text that is not JSON, writes a name twice in one object, or nests too deep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
pub struct InvalidJson {
    /// The text in words: `not valid JSON: …`, or `JSON nested deeper than … levels`.
    pub reason: String,
    /// In which line, from 1.
    pub line: usize,
    /// At which byte of the line, from 1; 0 stands for the end of the line before.
    pub column: usize,
}

impl InvalidJson {
    /// The remedy.
    pub const HELP: &str = "correct the text at that line and column";
}

impl From<InvalidJson> for Diagnostic {
    fn from(error: InvalidJson) -> Self {
        Self::error(Code::DocumentInvalid, "", error.to_string()).with_help(InvalidJson::HELP)
    }
}

/// Parses JSON text into a value. A name that is written twice in one object is refused.
pub fn parse_json(bytes: &[u8]) -> Result<Value, InvalidJson> {
    serde_json::from_slice(bytes).map(|Strict(value)| value).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        let text = e.to_string();
        let place = format!(" at line {line} column {column}");
        let reason = match text.strip_suffix(&place).unwrap_or(&text) {
            // Valid JSON, which `serde_json` reads only so far.
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
