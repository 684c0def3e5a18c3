//! Roots of a scope and their text form.

use std::{fmt, str::FromStr};

use crate::{
    kind::Kind,
    name::Name,
    reference::{InvalidKey, Key},
    setting::{InvalidSelector, Selector},
    visible::escape_invisible,
};

/// Maximum size of a tag in bytes.
const TAG_BYTES: usize = 256;
const TAG: &str = "tag:";

/// A root of a scope, which selects entities directly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// One version in any lifecycle state: `agent/planner@1.2.0`.
    Version(Key),
    /// Every active version of a name: `agent/planner@*`.
    Name(Kind, Name),
    /// Every active entity in a namespace: `team/*`, `com.example.*`.
    Namespace(Selector),
    /// Every active entity with this tag, or with a skill that has it: `tag:finance`.
    Tag(Box<str>),
}

/// A text is not a root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoot {
    /// It has none of the forms.
    #[error(
        "`{0}` is not a scope root; write kind/name@1.2.0, kind/name@*, team/*, com.example.* \
         or tag:NAME"
    )]
    Form(String),
    /// It is a policy.
    #[error("`{0}` is a policy; a scope contains all policies that apply to its entities")]
    Policy(String),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The namespace is invalid.
    #[error(transparent)]
    Namespace(#[from] InvalidSelector),
}

impl Root {
    /// The tag of a tag root.
    pub(crate) fn tag(&self) -> Option<&str> {
        match self {
            Self::Tag(tag) => Some(tag),
            Self::Version(_) | Self::Name(..) | Self::Namespace(_) => None,
        }
    }
}

impl FromStr for Root {
    type Err = InvalidRoot;

    fn from_str(text: &str) -> Result<Self, InvalidRoot> {
        let form =
            || InvalidRoot::Form(escape_invisible(text.chars().take(160).collect::<String>()));
        if let Some(tag) = text.strip_prefix(TAG) {
            let is_tag =
                !tag.is_empty() && tag.len() <= TAG_BYTES && !tag.contains(char::is_control);
            return if is_tag { Ok(Self::Tag(tag.into())) } else { Err(form()) };
        }
        if let Some(name) = text.strip_suffix("@*") {
            let (kind, name) = name.split_once('/').ok_or_else(form)?;
            let kind = kind.parse().map_err(|_| form())?;
            if kind == Kind::Policy {
                return Err(InvalidRoot::Policy(escape_invisible(text)));
            }
            return Ok(Self::Name(kind, Name::parse(kind, name).map_err(|_| form())?));
        }
        if text.contains('@') {
            let key: Key = text.parse()?;
            if key.kind == Kind::Policy {
                return Err(InvalidRoot::Policy(escape_invisible(text)));
            }
            return Ok(Self::Version(key));
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
