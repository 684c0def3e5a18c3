//! One root of a scope, as people write it.
//!
//! Deliberately absent: what a root needs.

use std::{collections::HashSet, fmt, str::FromStr};

use serde_json::Value;

use crate::{
    catalog::Record,
    name::Name,
    reference::{InvalidKey, Key, Kind},
    setting::{InvalidSelector, Selector},
};

/// Longest tag, in bytes.
const TAG_BYTES: usize = 256;
const TAG: &str = "tag:";

/// What is in scope for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// One version, whatever its lifecycle: `agent/planner@1.2.0`.
    Version(Key),
    /// Every active version of a name: `agent/planner@*`.
    Name(Kind, Name),
    /// Everything active whose name begins so: `team/*`, `com.example.*`.
    Namespace(Selector),
    /// Everything active that has this tag, or a skill with it: `tag:finance`.
    Tag(Box<str>),
}

/// Why a text is not a root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoot {
    /// Not a form of root.
    #[error(
        "`{0}` is not a root of a scope; write kind/name@1.2.0, kind/name@*, team/*, com.example.* \
         or tag:NAME"
    )]
    Form(String),
    /// The key part.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The namespace part.
    #[error(transparent)]
    Namespace(#[from] InvalidSelector),
}

impl Root {
    /// The tag, if it is one.
    pub(super) fn tag(&self) -> Option<&str> {
        match self {
            Self::Tag(tag) => Some(tag),
            Self::Version(_) | Self::Name(..) | Self::Namespace(_) => None,
        }
    }

    /// Whether this is about the entity itself.
    pub(super) fn names(&self, record: &Record) -> bool {
        let Key { kind, name, .. } = record.document.key();
        match self {
            Self::Version(key) => key == record.document.key(),
            Self::Name(of_kind, of_name) => {
                record.is_active() && of_kind == kind && of_name == name
            }
            Self::Namespace(selector) => record.is_active() && selector.covers(*kind, name),
            Self::Tag(tag) => record.is_active() && has_tag(record, tag),
        }
    }
}

fn has_tag(record: &Record, tag: &str) -> bool {
    // Few documents have the word at all, and reading one costs more than looking for it.
    has_text(record, &Value::from(tag).to_string()) && has_tag_where(record, |text| text == tag)
}

/// Whether an entity has one of many tags. Reads its document once, however many they are.
pub(super) fn has_any_tag(record: &Record, tags: &HashSet<&str>) -> bool {
    record.is_active()
        && has_text(record, "\"tags\"")
        && has_tag_where(record, |text| tags.contains(text))
}

fn has_text(record: &Record, text: &str) -> bool {
    record.document.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

fn has_tag_where(record: &Record, is_wanted: impl Fn(&str) -> bool) -> bool {
    let value = record.document.entity().to_value();
    let has = |tags: &Value| {
        tags.as_array().into_iter().flatten().filter_map(Value::as_str).any(&is_wanted)
    };
    has(&value["metadata"]["tags"])
        || value["skills"].as_array().is_some_and(|skills| skills.iter().any(|s| has(&s["tags"])))
}

impl FromStr for Root {
    type Err = InvalidRoot;

    fn from_str(text: &str) -> Result<Self, InvalidRoot> {
        let form = || InvalidRoot::Form(text.chars().take(160).collect());
        if let Some(tag) = text.strip_prefix(TAG) {
            let is_tag =
                !tag.is_empty() && tag.len() <= TAG_BYTES && !tag.contains(char::is_control);
            return if is_tag { Ok(Self::Tag(tag.into())) } else { Err(form()) };
        }
        if let Some(name) = text.strip_suffix("@*") {
            let (kind, name) = name.split_once('/').ok_or_else(form)?;
            let kind = kind.parse().map_err(|_| form())?;
            return Ok(Self::Name(kind, Name::parse(kind, name).map_err(|_| form())?));
        }
        if text.contains('@') {
            return Ok(Self::Version(text.parse()?));
        }
        match text.parse().map_err(|_| form())? {
            selector @ Selector::Namespace(_) => Ok(Self::Namespace(selector)),
            Selector::Everything | Selector::Name(..) => Err(form()),
        }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(key) => key.fmt(f),
            Self::Name(kind, name) => write!(f, "{kind}/{name}@*"),
            Self::Namespace(selector) => selector.fmt(f),
            Self::Tag(tag) => write!(f, "{TAG}{tag}"),
        }
    }
}
