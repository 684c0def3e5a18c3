//! MCP annotations of a tool: its own, or combined from the tools it calls.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Implementation, Tool};
use crate::reference::Key;

/// The annotations that MCP defines (`ToolAnnotations`).
pub const ANNOTATIONS: [&str; 5] =
    [TITLE, "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
const TITLE: &str = "title";

/// The type that MCP requires of an annotation, if the value has another one.
pub fn expected_annotation_type(name: &str, value: &Value) -> Option<&'static str> {
    match name {
        TITLE => (!value.is_string()).then_some("a string"),
        _ if ANNOTATIONS.contains(&name) => (!value.is_boolean()).then_some("true or false"),
        _ => None,
    }
}

/// The behavior hints of a tool (MCP, `ToolAnnotations`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// `readOnlyHint` and `destructiveHint`: the effect on existing data.
    pub effect: ToolEffect,
    /// `idempotentHint`: repeating a call has no further effect. Always true of a read-only tool.
    pub is_idempotent: bool,
    /// `openWorldHint`: the tool interacts with external entities.
    pub is_open_world: bool,
}

/// The effect of a tool on existing data, in order of increasing harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolEffect {
    /// It changes nothing.
    Reads,
    /// It only adds data.
    Adds,
    /// It may change or delete data.
    Destroys,
}

impl Hints {
    /// Hints from a lookup of annotation values. Absent values have the defaults of MCP.
    pub fn new(says: impl Fn(&str) -> Option<bool>) -> Self {
        let effect = if says("readOnlyHint").unwrap_or(false) {
            ToolEffect::Reads
        } else if says("destructiveHint").unwrap_or(true) {
            ToolEffect::Destroys
        } else {
            ToolEffect::Adds
        };
        Self {
            effect,
            is_idempotent: effect == ToolEffect::Reads || says("idempotentHint").unwrap_or(false),
            is_open_world: says("openWorldHint").unwrap_or(true),
        }
    }

    /// Hints from an annotations object.
    pub fn from_annotations(annotations: &Map<String, Value>) -> Self {
        Self::new(|hint| annotations.get(hint).and_then(Value::as_bool))
    }

    /// The combined hints of several tools. The result is read-only or idempotent if all are, and
    /// destructive or open-world if one is.
    pub fn combined(parts: impl IntoIterator<Item = Self>) -> Self {
        let nothing = Self { effect: ToolEffect::Reads, is_idempotent: true, is_open_world: false };
        parts.into_iter().fold(nothing, |all, part| Self {
            effect: all.effect.max(part.effect),
            is_idempotent: all.is_idempotent && part.is_idempotent,
            is_open_world: all.is_open_world || part.is_open_world,
        })
    }

    /// The hints of a registered tool, without those that the upstream itself declares. Results are
    /// memoized in `known`.
    pub fn registered<'t>(
        tool: &Tool,
        find: &dyn Fn(&Key) -> Option<&'t Tool>,
        known: &mut BTreeMap<Key, Self>,
    ) -> Self {
        if let Some(annotations) = &tool.annotations {
            return Self::from_annotations(annotations);
        }
        let Implementation::Spec(_) = tool.implementation else { return Self::new(|_| None) };
        let parts: Vec<_> = tool
            .depends
            .iter()
            .map(|dependency| {
                let key = dependency.key();
                if let Some(hints) = known.get(&key) {
                    return *hints;
                }
                // Tools in a cycle, and agents, get the most cautious hints.
                known.insert(key.clone(), Self::new(|_| None));
                let hints = match find(&key) {
                    Some(callee) => Self::registered(callee, find, known),
                    None => Self::new(|_| None),
                };
                known.insert(key, hints);
                hints
            })
            .collect();
        Self::combined(parts)
    }

    /// The hints as MCP annotations.
    pub fn to_annotations(self) -> Map<String, Value> {
        let hints = [
            ("readOnlyHint", self.effect == ToolEffect::Reads),
            ("destructiveHint", self.effect == ToolEffect::Destroys),
            ("idempotentHint", self.is_idempotent),
            ("openWorldHint", self.is_open_world),
        ];
        hints.into_iter().map(|(name, is_so)| (name.to_owned(), is_so.into())).collect()
    }
}
