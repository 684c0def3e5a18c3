//! The calls that a policy selects.

use std::fmt;

use schema_compat::pointer::Location;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::decode::Problems;

/// The calls that a policy selects: those of the callers, to the tools, skills or servers, with the
/// given effect. An absent part selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AppliesTo {
    /// The callers. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CallerPattern>,
    /// The names of tools. A name also selects the aliases of its tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Pattern>,
    /// The skills of agents: `AGENT/SKILL`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Pattern>,
    /// The names of servers, with everything that they provide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Pattern>,
    /// Whether only destructive tools are selected, or only others. `None`: both. A tool without
    /// annotations is destructive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
}

/// The name of an agent, or the tag of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerPattern {
    /// The agents with a matching name.
    Agent(Pattern),
    /// The agents with this tag: `tag:prod`.
    Tag(Box<str>),
}

/// A pattern of names: each `*` matches any characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Pattern(Box<str>);

const TAG_PREFIX: &str = "tag:";

impl AppliesTo {
    /// Whether every call is selected.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the tools, skills or servers are restricted by name.
    pub fn names_resources(&self) -> bool {
        !(self.tools.is_empty() && self.skills.is_empty() && self.servers.is_empty())
    }

    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let pattern = |value: &Value, at: Location<'_>| Pattern::read(problems, value, at);
        let found = Self {
            callers: fields.list("callers", |value, at| CallerPattern::read(problems, value, at)),
            tools: fields.list("tools", pattern),
            skills: fields.list("skills", pattern),
            servers: fields.list("servers", pattern),
            destructive: fields.optional_bool("destructive"),
        };
        // A list with invalid items, or with too many, has an error of its own.
        let is_empty = |name| fields.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty);
        let help = "remove the member to select everything, or name what the policy selects";
        if is_empty("callers") {
            problems.invalid(fields.at("callers"), "the list selects no caller", help);
        }
        let lists = ["tools", "skills", "servers"].into_iter();
        let lists: Vec<_> = lists.filter(|&name| fields.get(name).is_some()).collect();
        if !lists.is_empty() && lists.into_iter().all(is_empty) {
            problems.invalid(at, "the lists select no tool, skill or server", help);
        }
        fields.finish();
        Some(found)
    }
}

impl CallerPattern {
    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        match problems.string(value, at)?.strip_prefix(TAG_PREFIX) {
            Some("") => {
                problems.invalid(at, "the tag is empty", "write a tag such as tag:prod");
                None
            }
            Some(tag) => Some(Self::Tag(tag.into())),
            None => Pattern::read(problems, value, at).map(Self::Agent),
        }
    }
}

impl fmt::Display for CallerPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(pattern) => pattern.fmt(f),
            Self::Tag(tag) => write!(f, "{TAG_PREFIX}{tag}"),
        }
    }
}

impl Serialize for CallerPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Pattern {
    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let text = problems.string(value, at)?;
        let is_allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '*');
        if text.is_empty() || text.len() > 256 || !text.chars().all(is_allowed) {
            let message = format!("`{}` is not a name or pattern", text.escape_debug());
            let help = "use 1 to 256 of the characters A-Z a-z 0-9 _ . - / and * for any text";
            problems.invalid(at, message, help);
            return None;
        }
        Some(Self(text.into()))
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, unless the pattern contains `*`.
    pub fn as_exact(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&*self.0)
    }

    /// Whether the pattern matches the whole name. The time is linear in the name for each `*`.
    pub fn matches(&self, name: &str) -> bool {
        let Some((prefix, rest)) = self.0.split_once('*') else { return *self.0 == *name };
        let Some(mut name) = name.strip_prefix(prefix) else { return false };
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*') {
            // The leftmost match leaves the most text to the following parts.
            let Some(at) = name.find(part) else { return false };
            name = &name[at + part.len()..];
        }
        name.ends_with(suffix)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_whole_names() {
        for (pattern, name, is_match) in [
            ("fetch", "fetch", true),
            ("fetch", "fetch2", false),
            ("pay_*", "pay_", true),
            ("pay_*", "repay_x", false),
            ("*_pay", "a_pay_pay", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("**", "", true),
            ("*x*x*", "x", false),
        ] {
            let pattern = Pattern(pattern.into());
            assert_eq!(pattern.matches(name), is_match, "{pattern} {name}");
        }
    }
}
