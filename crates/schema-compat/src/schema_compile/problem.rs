//! What can be wrong with a JSON Schema, in our words and at our pointers.

use std::fmt::{self, Write as _};

use jsonschema::{Draft, ReferencingError, ValidationError, error::ValidationErrorKind};
use serde_json::Value;

use super::{instance::Instance, metered};
use crate::{json_schema::each_object_at, limits, pointer::Location};

/// One reason why a JSON Schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchema {
    /// A `$schema` that is not one of the supported dialects.
    #[error("the dialect {dialect} is not supported")]
    Dialect {
        /// Where it is.
        pointer: String,
        /// What `$schema` says.
        dialect: String,
    },
    /// A reference to a schema that is not registered.
    #[error("the schema `{reference}` is not registered")]
    Unresolved {
        /// Where the reference is.
        pointer: String,
        /// The reference as it is written.
        reference: String,
    },
    /// A reference that would have to be fetched.
    #[error("`{uri}` is outside of the registry, and nothing is ever fetched")]
    Remote {
        /// Where the reference is.
        pointer: String,
        /// What it refers to.
        uri: String,
    },
    /// A URI of the form that only the registry itself uses.
    #[error("`{uri}` uses the registry's own URI scheme")]
    Reserved {
        /// Where it is.
        pointer: String,
        /// The URI.
        uri: String,
    },
    /// One `$id` in two documents: references to it would lead to either.
    #[error(
        "`{uri}` is the `$id` of two of the schemas that it leads to, itself and meta-schemas included"
    )]
    SameId {
        /// The `$id`.
        uri: String,
    },
    /// It compiles by itself, but not at the URI that it has for other schemas.
    #[error("where another schema refers to it, {problem}")]
    Referred {
        /// Where it is.
        pointer: String,
        /// What is wrong there.
        problem: String,
    },
    /// More registered schemas behind it than allowed.
    #[error("it leads to more than {} registered schemas", crate::limits::SCHEMA_REFERENCES)]
    TooManyReferences,
    /// More regular expressions than allowed.
    #[error("it has {patterns} patterns, {} are allowed", crate::limits::SCHEMA_PATTERNS)]
    TooManyPatterns {
        /// How many.
        patterns: usize,
    },
    /// One place of a value would be checked too often.
    #[error("it leads to one place of a value in more than {} ways", crate::limits::SCHEMA_PATHS)]
    TooManyPaths {
        /// The schema object that does.
        pointer: String,
    },
    /// It leads back to itself about the same value in several ways.
    #[error("it leads back to itself, about the same value, in more than one way")]
    LeadsBack {
        /// The schema object that does.
        pointer: String,
    },
    /// Anything else that its dialect does not allow.
    #[error("{message}")]
    Invalid {
        /// Where it is.
        pointer: String,
        /// What is wrong.
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
            | Self::Invalid { pointer, .. } => pointer,
        }
    }

    /// What to do about it.
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
            Self::TooManyReferences => "put what belongs together into one schema with `$defs`",
            Self::TooManyPaths { .. } => {
                "say each thing once: `allOf`, `anyOf` and `$ref` multiply when they are nested"
            }
            Self::LeadsBack { .. } => "refer back from a property or an item, and only once",
            Self::SameId { .. } => "give each schema an `$id` of its own, or none",
            Self::Invalid { .. } => "see https://json-schema.org for what the keyword allows",
        }
    }
}

/// Everything that is wrong with a schema which does not compile.
pub(super) fn of_build(
    schema: &Value,
    draft: Draft,
    error: &ValidationError<'_>,
) -> Vec<InvalidSchema> {
    if let ValidationErrorKind::Referencing(error) = error.kind() {
        return vec![of_reference(schema, error)];
    }
    let meta = by_meta_schema(schema, draft);
    if !meta.is_empty() {
        return meta;
    }
    let pointer = error.instance_path().as_str().to_owned();
    vec![InvalidSchema::Invalid { pointer, message: shortened(&in_plain_words(error)) }]
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
        let pointer = error.instance_path().as_str().to_owned();
        let message = shortened(&in_plain_words(&error));
        let invalid = InvalidSchema::Invalid { pointer, message };
        // Each part of the meta-schema that leads to the same place says the same.
        if !found.contains(&invalid) {
            found.push(invalid);
        }
        if found.len() == limits::VIOLATIONS {
            break;
        }
    }
    found
}

fn in_plain_words(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    let keyword = error.instance_path().as_str().rsplit('/').next().unwrap_or_default();
    match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" && is_expression(value) => {
            format!("{value} is too big a regular expression: its repetitions multiply")
        }
        ValidationErrorKind::Format { format } if format == "regex" => {
            format!("{value} is not a regular expression without look-around and backreferences")
        }
        ValidationErrorKind::AnyOf { .. } if keyword == "type" => format!(
            "{value} is not a type; the types are array, boolean, integer, null, number, object \
             and string"
        ),
        _ => error.to_string(),
    }
}

/// Whether it can be read, so that it must be its size that is wrong.
fn is_expression(value: &Value) -> bool {
    value.as_str().is_some_and(|pattern| regex_syntax::Parser::new().parse(pattern).is_ok())
}

fn of_reference(schema: &Value, error: &ReferencingError) -> InvalidSchema {
    let message = shortened(&error.to_string());
    if let ReferencingError::Unretrievable { uri, .. } = error {
        let pointer = place_of(schema, uri);
        return InvalidSchema::Remote { pointer, uri: shortened(uri) };
    }
    InvalidSchema::Invalid { pointer: String::new(), message }
}

/// The place of the reference that, once resolved, gives this URI.
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

/// Whether an error is true: errors found after the limit was reached may be about hidden values.
pub(super) fn is_seen(error: &ValidationError<'_>) -> bool {
    if metered::is_seen(error.instance()) {
        return true;
    }
    // The validator decides before it collects the errors inside.
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

/// The message of an error. The error carries only a sample, so the text of the value is looked up.
pub(super) fn of_value(error: &ValidationError<'_>, instance: &Instance<'_>) -> String {
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

/// Most items that a message lists.
const ITEMS: usize = 10;
/// Longest value in a message, in bytes. The reason comes after it.
const VALUE_BYTES: usize = 150;
/// Longest message, in characters.
const MESSAGE_CHARS: usize = 300;

/// A text cut to a length that fits into a message.
pub(super) fn shortened(text: &str) -> String {
    shown(&text)
}

/// The beginning of any displayed text; the rest is never written.
fn shown(text: &dyn fmt::Display) -> String {
    let mut cut = Cut { text: String::new(), left: MESSAGE_CHARS };
    if write!(cut, "{text}").is_err() {
        cut.text.push('…');
    }
    cut.text
}

/// A text cut to this number of bytes at most.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)])
}

/// A text with room for a number of characters.
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
