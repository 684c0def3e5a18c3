//! Validated names of entities.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde::Serialize;

use crate::{kind::Kind, visible::escape_invisible};

const LONGEST: usize = 128;
/// With a namespace: the limit of the MCP registry for server names.
const LONGEST_WITH_NAMESPACE: usize = 200;

/// An entity's name: 1 to 128 of `[A-Za-z0-9_.-]`, but not `.` or `..`. Names of servers and agents
/// may have a `namespace/` prefix, and then at most 200 characters.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Name(Arc<str>);

/// The order of the texts. Most compared names of a catalog share their text, which is then not read.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name, or a part of it, is empty.
    #[error("the name `{0}` has an empty part")]
    Empty(String),
    /// The name exceeds 128 characters or, with a namespace, 200.
    #[error("the name `{start}…` has {length} characters; the maximum is {most}")]
    TooLong {
        /// The first characters of the name.
        start: String,
        /// The length in characters.
        length: usize,
        /// The maximum length.
        most: usize,
    },
    /// A part is `.` or `..`, which URIs and paths interpret as navigation.
    #[error("`{part}` is not allowed as a part of the name `{name}`")]
    Dots {
        /// The part.
        part: String,
        /// The whole name with invisible characters escaped.
        name: String,
    },
    /// A character is not in the allowed set.
    #[error("`{}` is not allowed in the name `{name}`", escape_invisible(*.character))]
    Character {
        /// The first invalid character.
        character: char,
        /// The whole name with invisible characters escaped.
        name: String,
    },
    /// The name has more slashes than its kind allows.
    #[error("the {kind} name `{name}` has too many `/`: {slashes}")]
    Namespace {
        /// The kind of the entity.
        kind: Kind,
        /// The whole name with invisible characters escaped.
        name: String,
        /// The number of slashes.
        slashes: usize,
    },
}

impl InvalidName {
    /// The remedy.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Namespace { kind: Kind::Server | Kind::Agent, .. } => {
                "write at most one namespace, like `team/name`"
            }
            Self::Namespace { .. } => "only servers and agents may have a `namespace/` prefix",
            Self::Dots { .. } => "use at least one letter, digit, `_` or `-`",
            _ => {
                "use 1 to 128 of the characters A-Z a-z 0-9 _ . -; for servers and agents up to 200 \
                 with their namespace"
            }
        }
    }
}

impl Name {
    /// Parses the name of an entity of this kind.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, InvalidName> {
        // Most names are valid and have no namespace. One pass decides that.
        if text.len() <= LONGEST && !matches!(text, "" | "." | "..") && text.chars().all(is_allowed)
        {
            return Ok(Self(text.into()));
        }
        let (length, slashes) = (text.chars().count(), text.matches('/').count());
        let has_namespace = kind.has_namespaces() && slashes > 0;
        let most = if has_namespace { LONGEST_WITH_NAMESPACE } else { LONGEST };
        if length > most {
            let start = escape_invisible(text.chars().take(32).collect::<String>());
            return Err(InvalidName::TooLong { start, length, most });
        }
        if slashes > usize::from(kind.has_namespaces()) {
            return Err(InvalidName::Namespace { kind, name: escape_invisible(text), slashes });
        }
        for part in text.split('/') {
            if part.is_empty() {
                return Err(InvalidName::Empty(escape_invisible(text)));
            }
            if matches!(part, "." | "..") {
                return Err(InvalidName::Dots {
                    part: part.to_owned(),
                    name: escape_invisible(text),
                });
            }
            if let Some(character) = part.chars().find(|c| !is_allowed(*c)) {
                return Err(InvalidName::Character { character, name: escape_invisible(text) });
            }
        }
        Ok(Self(text.into()))
    }

    /// The lower bound of all names, for range queries only.
    pub(crate) fn lowest() -> Self {
        Self("".into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The valid name closest to a text; `None` if no character of it is valid.
pub fn closest_name(kind: Kind, text: &str) -> Option<Name> {
    if let Ok(name) = Name::parse(kind, text) {
        return Some(name);
    }
    let text = text.trim_start_matches('@');
    let name = match text.split_once('/') {
        Some((namespace, rest)) if kind.has_namespaces() => {
            let (namespace, rest) = (part(kind, namespace), part(kind, rest));
            let joined = [namespace, rest].into_iter().filter(|part| !part.is_empty());
            joined.collect::<Vec<_>>().join("/")
        }
        _ => part(kind, text),
    };
    Name::parse(kind, name.get(..LONGEST).unwrap_or(&name)).ok()
}

/// One part of a name, with each run of invalid characters replaced by one separator.
fn part(kind: Kind, text: &str) -> String {
    let separator = if kind == Kind::Tool { '_' } else { '-' };
    let mut part = String::new();
    for character in text.chars() {
        if is_allowed(character) {
            part.push(character);
        } else if !part.is_empty() && !part.ends_with(separator) {
            part.push(separator);
        }
    }
    part.trim_end_matches(separator).to_owned()
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-')
}

/// Maps with names as keys are searched with texts. An invalid name is not in them.
impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_valid_names() {
        for good in ["a", "search_documents", "A.b-c_9", &"x".repeat(128)] {
            assert_eq!(Name::parse(Kind::Tool, good).unwrap().as_str(), good);
        }
        assert!(Name::parse(Kind::Server, "acme/docs").is_ok());
        assert!(Name::parse(Kind::Agent, "io.github.acme/docs").is_ok());
        assert!(Name::parse(Kind::Server, &format!("com.example/{}", "n".repeat(188))).is_ok());
    }

    #[test]
    fn parse_rejects_invalid_names_with_reason() {
        assert!(Name::parse(Kind::Schema, "...").is_ok());
        let refused = [
            (Kind::Tool, ""),
            (Kind::Tool, "a b"),
            (Kind::Tool, "acme/docs"),
            (Kind::Server, "a/b/c"),
            (Kind::Server, "/b"),
            (Kind::Schema, ".."),
            (Kind::Agent, "./x"),
            (Kind::Schema, "größe"),
            (Kind::Tool, &"x".repeat(129)),
            (Kind::Server, &"x".repeat(129)),
            (Kind::Server, &format!("com.example/{}", "n".repeat(189))),
        ]
        .map(|(kind, text)| Name::parse(kind, text).unwrap_err().to_string());
        insta::assert_snapshot!(refused.join("\n"), @"
        the name `` has an empty part
        ` ` is not allowed in the name `a b`
        the tool name `acme/docs` has too many `/`: 1
        the server name `a/b/c` has too many `/`: 2
        the name `/b` has an empty part
        `..` is not allowed as a part of the name `..`
        `.` is not allowed as a part of the name `./x`
        `ö` is not allowed in the name `größe`
        the name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` has 129 characters; the maximum is 128
        the name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` has 129 characters; the maximum is 128
        the name `com.example/nnnnnnnnnnnnnnnnnnnn…` has 201 characters; the maximum is 200
        ");
    }

    #[test]
    fn closest_name_sanitizes_text() {
        let name = |kind, text| closest_name(kind, text).map(|name| name.to_string());
        assert_eq!(name(Kind::Tool, "read_file").as_deref(), Some("read_file"));
        assert_eq!(name(Kind::Tool, "files/read file!").as_deref(), Some("files_read_file"));
        assert_eq!(name(Kind::Server, "My Server (beta)").as_deref(), Some("My-Server-beta"));
        assert_eq!(name(Kind::Server, "@acme/docs/x").as_deref(), Some("acme/docs-x"));
        assert_eq!(name(Kind::Server, "größe/").as_deref(), Some("gr-e"));
        assert_eq!(name(Kind::Tool, "検索"), None);
        assert_eq!(name(Kind::Tool, ""), None);
        assert_eq!(name(Kind::Tool, ".."), None);
        assert_eq!(name(Kind::Tool, &"x ".repeat(500)).unwrap().len(), 128);
    }
}
