//! What a tool may do, as MCP's annotations tell it: its own, or what its parts come to.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Implementation, Tool};
use crate::reference::Key;

/// What MCP's annotations say of a tool (MCP, `ToolAnnotations`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// `readOnlyHint` and `destructiveHint`: what it does to what is there.
    pub effect: Effect,
    /// `idempotentHint`: a second time changes nothing more; what only reads is.
    pub is_idempotent: bool,
    /// `openWorldHint`: it deals with what is not known beforehand.
    pub is_open_world: bool,
}

/// What a tool does to what is there, the harmless first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// It adds to it.
    Adds,
    /// It may take away from it.
    Destroys,
}

impl Hints {
    /// By what is said of each; what is not said is what MCP takes it for.
    pub fn new(says: impl Fn(&str) -> Option<bool>) -> Self {
        let effect = if says("readOnlyHint").unwrap_or(false) {
            Effect::Reads
        } else if says("destructiveHint").unwrap_or(true) {
            Effect::Destroys
        } else {
            Effect::Adds
        };
        Self {
            effect,
            is_idempotent: effect == Effect::Reads || says("idempotentHint").unwrap_or(false),
            is_open_world: says("openWorldHint").unwrap_or(true),
        }
    }

    /// By annotations.
    pub fn of_annotations(annotations: &Map<String, Value>) -> Self {
        Self::new(|hint| annotations.get(hint).and_then(Value::as_bool))
    }

    /// Of what does all of these: it only reads, or may be repeated, if all may; it destroys, or
    /// deals with the open world, if one does.
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        let nothing = Self { effect: Effect::Reads, is_idempotent: true, is_open_world: false };
        parts.into_iter().fold(nothing, |all, part| Self {
            effect: all.effect.max(part.effect),
            is_idempotent: all.is_idempotent && part.is_idempotent,
            is_open_world: all.is_open_world || part.is_open_world,
        })
    }

    /// Of a registered tool, as far as registrations tell; what an upstream says of itself is not
    /// known here. A tool that is looked at twice is looked up in `known`.
    pub fn registered<'t>(
        tool: &Tool,
        find: &dyn Fn(&Key) -> Option<&'t Tool>,
        known: &mut BTreeMap<Key, Self>,
    ) -> Self {
        if let Some(annotations) = &tool.annotations {
            return Self::of_annotations(annotations);
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
                // What goes round in a circle, or is an agent, may do anything.
                known.insert(key.clone(), Self::new(|_| None));
                let hints = match find(&key) {
                    Some(callee) => Self::registered(callee, find, known),
                    None => Self::new(|_| None),
                };
                known.insert(key, hints);
                hints
            })
            .collect();
        Self::of_all(parts)
    }

    /// As MCP's annotations.
    pub fn to_annotations(self) -> Map<String, Value> {
        let hints = [
            ("readOnlyHint", self.effect == Effect::Reads),
            ("destructiveHint", self.effect == Effect::Destroys),
            ("idempotentHint", self.is_idempotent),
            ("openWorldHint", self.is_open_world),
        ];
        hints.into_iter().map(|(name, is_so)| (name.to_owned(), is_so.into())).collect()
    }
}
