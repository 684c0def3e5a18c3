//! Problems of JSON Schemas, with JSON pointers.

use std::fmt::{self, Write as _};

use jsonschema::{Draft, ReferencingError, ValidationError, error::ValidationErrorKind};
use serde_json::Value;

use super::{instance::Instance, metered};
use crate::{json_schema::each_object_at, limits, pointer::Location, suggest::closest};

/// A reason why a JSON Schema is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchema {
    /// An unsupported `$schema`.
    #[error("the dialect {dialect} is not supported")]
    Dialect {
        /// JSON pointer of the `$schema`.
        pointer: String,
        /// The value of `$schema`.
        dialect: String,
    },
    /// A reference to a schema that is not registered.
    #[error("the schema `{reference}` is not registered")]
    Unresolved {
        /// JSON pointer of the reference.
        pointer: String,
        /// The reference as written.
        reference: String,
    },
    /// A reference outside of the registry.
    #[error("`{uri}` is outside of the registry and is not fetched")]
    Remote {
        /// JSON pointer of the reference.
        pointer: String,
        /// The referenced URI.
        uri: String,
    },
    /// A URI reserved for the registry.
    #[error("`{uri}` uses the reserved URI scheme of the registry")]
    Reserved {
        /// JSON pointer of the URI.
        pointer: String,
        /// The URI.
        uri: String,
    },
    /// The same `$id` in two documents, so that references to it are ambiguous.
    #[error(
        "`{uri}` is the `$id` of two schemas among itself, its references and the meta-schemas"
    )]
    SameId {
        /// The `$id`.
        uri: String,
    },
    /// A problem that occurs only under the schema's URI within other schemas.
    #[error("where another schema refers to it, {problem}")]
    Referred {
        /// JSON pointer of the problem.
        pointer: String,
        /// The problem.
        problem: String,
    },
    /// Too many registered schemas are referenced, directly or indirectly.
    #[error(
        "the schema refers to more than {} registered schemas, directly or indirectly",
        crate::limits::SCHEMA_REFERENCES
    )]
    TooManyReferences,
    /// Too many regular expressions.
    #[error(
        "the schema has {patterns} patterns; the maximum is {}",
        crate::limits::SCHEMA_PATTERNS
    )]
    TooManyPatterns {
        /// The number of patterns.
        patterns: usize,
    },
    /// Too many ways to apply to one location of a value.
    #[error(
        "the schema applies to one location of a value in more than {} ways",
        crate::limits::SCHEMA_PATHS
    )]
    TooManyPaths {
        /// JSON pointer of the schema object.
        pointer: String,
    },
    /// The schema refers back to itself for the same value in several ways.
    #[error("the schema refers back to itself for the same value in more than one way")]
    LeadsBack {
        /// JSON pointer of the schema object.
        pointer: String,
    },
    /// A pattern that is no regular expression of the registry.
    #[error("{pattern} is not a regular expression without look-around and backreferences")]
    Pattern {
        /// JSON pointer of the pattern.
        pointer: String,
        /// The pattern.
        pattern: String,
    },
    /// Another violation of the dialect.
    #[error("{message}")]
    Invalid {
        /// JSON pointer of the violation.
        pointer: String,
        /// The violation.
        message: String,
    },
}

impl InvalidSchema {
    pub(super) fn unresolved(pointer: String, reference: &str) -> Self {
        Self::Unresolved { pointer, reference: shortened(reference) }
    }

    /// JSON pointer into the schema.
    pub fn pointer(&self) -> &str {
        match self {
            Self::TooManyReferences | Self::TooManyPatterns { .. } | Self::SameId { .. } => "",
            Self::Dialect { pointer, .. }
            | Self::Unresolved { pointer, .. }
            | Self::Remote { pointer, .. }
            | Self::Reserved { pointer, .. }
            | Self::Referred { pointer, .. }
            | Self::TooManyPaths { pointer }
            | Self::LeadsBack { pointer }
            | Self::Pattern { pointer, .. }
            | Self::Invalid { pointer, .. } => pointer,
        }
    }

    /// The remedy.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Dialect { .. } => {
                "use https://json-schema.org/draft/2020-12/schema, or draft 2019-09, 7, 6 or 4"
            }
            Self::Unresolved { .. } => "register that schema first, or in the same batch",
            Self::Remote { .. } => {
                "register the other schema and refer to it as `#Name:1.0.0`, or copy it into `$defs`"
            }
            Self::Reserved { .. } => "refer to a registered schema as `#Name:1.0.0`",
            Self::Referred { .. } => {
                "refer to its parts as `#/$defs/…`, or give it an `$id` that is an absolute URI"
            }
            Self::TooManyPatterns { .. } => "join patterns, or split the schema",
            Self::TooManyReferences => "combine related schemas into one with `$defs`",
            Self::TooManyPaths { .. } => {
                "remove duplicates: nested `allOf`, `anyOf` and `$ref` multiply"
            }
            Self::LeadsBack { .. } => {
                "make only one recursive reference, from a property or an item"
            }
            Self::SameId { .. } => "give each schema a unique `$id`, or none",
            Self::Pattern { .. } => {
                "patterns of the registry have neither look-around nor backreferences; correct the \
                 pattern, write it without them, or leave it out"
            }
            Self::Invalid { message, .. } if message.starts_with("Anchor ") => {
                "refer to a registered schema with its version, as `#Name:1.0.0`, or define the anchor"
            }
            Self::Invalid { .. } => "see https://json-schema.org for the syntax of the keyword",
        }
    }
}

/// All problems of a schema that does not compile.
pub(super) fn from_build(
    schema: &Value,
    draft: Draft,
    error: &ValidationError<'_>,
) -> Vec<InvalidSchema> {
    if let ValidationErrorKind::Referencing(error) = error.kind() {
        return vec![from_reference(schema, error)];
    }
    let meta = by_meta_schema(schema, draft);
    if !meta.is_empty() {
        return meta;
    }
    vec![violation(error)]
}

fn by_meta_schema(schema: &Value, draft: Draft) -> Vec<InvalidSchema> {
    let validator = match draft {
        Draft::Draft4 => jsonschema::draft4::meta::validator(),
        Draft::Draft6 => jsonschema::draft6::meta::validator(),
        Draft::Draft7 => jsonschema::draft7::meta::validator(),
        Draft::Draft201909 => jsonschema::draft201909::meta::validator(),
        _ => jsonschema::draft202012::meta::validator(),
    };
    let mut found = Vec::new();
    for error in validator.iter_errors(schema) {
        let invalid = violation(&error);
        // Parts of the meta-schema may report the same problem repeatedly.
        if !found.contains(&invalid) {
            found.push(invalid);
        }
        if found.len() == limits::VIOLATIONS {
            break;
        }
    }
    found
}

/// A violation of the dialect, with a message in plain words.
fn violation(error: &ValidationError<'_>) -> InvalidSchema {
    let (value, pointer) = (error.instance(), error.instance_path().as_str().to_owned());
    let keyword = pointer.rsplit('/').next().unwrap_or_default();
    let message = match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" && is_expression(value) => {
            format!("the regular expression {value} is too large because its repetitions multiply")
        }
        ValidationErrorKind::Format { format } if format == "regex" => {
            return InvalidSchema::Pattern { pointer, pattern: shown(value) };
        }
        ValidationErrorKind::AnyOf { .. } if keyword == "type" => format!(
            "{value} is not a type; the types are array, boolean, integer, null, number, object \
             and string"
        ),
        _ => error.to_string(),
    };
    InvalidSchema::Invalid { pointer, message: shortened(&message) }
}

/// Whether the expression parses, so that its size must be the problem.
fn is_expression(value: &Value) -> bool {
    value.as_str().is_some_and(|pattern| regex_syntax::Parser::new().parse(pattern).is_ok())
}

fn from_reference(schema: &Value, error: &ReferencingError) -> InvalidSchema {
    let message = shortened(&error.to_string());
    if let ReferencingError::Unretrievable { uri, .. } = error {
        let pointer = place_of(schema, uri);
        return InvalidSchema::Remote { pointer, uri: shortened(uri) };
    }
    InvalidSchema::Invalid { pointer: String::new(), message }
}

/// The pointer of the reference that resolves to this URI.
fn place_of(schema: &Value, uri: &str) -> String {
    let mut found = None;
    each_object_at(schema, Location::ROOT, &mut |map, at| {
        for keyword in ["$ref", "$dynamicRef", "$schema"] {
            if let Some(Value::String(text)) = map.get(keyword) {
                let target = text.split('#').next().unwrap_or_default();
                if found.is_none() && !target.is_empty() && uri.ends_with(target) {
                    found = Some(at.member(keyword).to_string());
                }
            }
        }
    });
    found.unwrap_or_default()
}

/// Whether an error is genuine: later errors may be caused by hidden values.
pub(super) fn is_seen(error: &ValidationError<'_>) -> bool {
    if metered::is_seen(error.instance()) {
        return true;
    }
    // The validator decides before it collects the nested errors.
    match error.kind() {
        ValidationErrorKind::AnyOf { context }
        | ValidationErrorKind::OneOfNotValid { context }
        | ValidationErrorKind::OneOfMultipleValid { context } => {
            context.iter().flatten().any(is_seen)
        }
        ValidationErrorKind::PropertyNames { error } => is_seen(error),
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedItems { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => !unexpected.is_empty(),
        _ => false,
    }
}

/// The message of an error. Errors contain only a sample, so the text of the value is looked up.
pub(super) fn violation_message(error: &ValidationError<'_>, instance: &Instance<'_>) -> String {
    let part = instance.find(error.instance_path().as_str());
    if let (ValidationErrorKind::AdditionalItems { limit }, Some(array)) = (error.kind(), part) {
        let unexpected = array.len().saturating_sub(*limit);
        return format!(
            "Additional items are not allowed: there are {unexpected} more than {limit}"
        );
    }
    if let ValidationErrorKind::UnevaluatedItems { unexpected } = error.kind() {
        let items: Vec<_> = unexpected.iter().take(ITEMS).map(|item| format!("'{item}'")).collect();
        let more = if unexpected.len() > ITEMS { ", …" } else { "" };
        return shown(&format!("Unevaluated items are not allowed: {}{more}", items.join(", ")));
    }
    let text = part.map_or_else(|| error.instance().to_string(), |part| part.shown(VALUE_BYTES));
    shown(&error.masked_with(text))
}

/// Maximum number of unexpected names that are compared with a missing one.
const COMPARED_NAMES: usize = 20;

/// An unexpected member of the same object with a name similar to the missing one.
pub(super) fn likely_misspelling<'e>(
    missing: &ValidationError<'_>,
    all: &'e [ValidationError<'_>],
) -> Option<&'e str> {
    let ValidationErrorKind::Required { property } = missing.kind() else { return None };
    let place = missing.instance_path().as_str();
    let beside = all.iter().filter(|other| other.instance_path().as_str() == place);
    let unexpected = beside.filter_map(|other| match other.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => Some(unexpected),
        _ => None,
    });
    let names = unexpected.flatten().take(COMPARED_NAMES).map(String::as_str);
    closest(property.as_str()?, names)
}

/// Maximum number of items in a message.
const ITEMS: usize = 10;
/// Maximum size of a value in a message in bytes, so that the reason stays visible.
const VALUE_BYTES: usize = 150;
/// Maximum length of a message in characters.
const MESSAGE_CHARS: usize = 300;

/// A text truncated to fit into a message.
pub(super) fn shortened(text: &str) -> String {
    shown(&text)
}

/// The start of a displayed text; the rest is never formatted.
fn shown(text: &dyn fmt::Display) -> String {
    let mut cut = Cut { text: String::new(), left: MESSAGE_CHARS };
    if write!(cut, "{text}").is_err() {
        cut.text.push('…');
    }
    cut.text
}

/// A text truncated to this number of bytes.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)])
}

/// A writer that truncates to a number of characters.
struct Cut {
    text: String,
    left: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some((end, _)) = text.char_indices().nth(self.left) {
            self.text.push_str(&text[..end]);
            return Err(fmt::Error);
        }
        self.left -= text.chars().count();
        self.text.push_str(text);
        Ok(())
    }
}
