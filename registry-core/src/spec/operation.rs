//! What a step does: call a tool, call an agent's skill, or run a nested pattern.
//!
//! Deliberately absent: versions; those come from the tool's `depends`.

use super::Spec;
use crate::name::Name;

/// One operation of a composition.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// `{ tool: { name } }`, or `{ tool: "name" }`.
    Tool(Name),
    /// `{ agent: { name, skill } }`.
    Agent {
        /// The agent.
        name: Name,
        /// One of its skills.
        skill: String,
    },
    /// `{ pattern: SPEC }`.
    Pattern(Box<Spec>),
}

/// What a composition calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A tool.
    Tool(Name),
    /// A skill of an agent.
    Agent {
        /// The agent.
        name: Name,
        /// The skill.
        skill: String,
    },
}

/// One place of a composition that calls something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// JSON pointer inside of the spec.
    pub pointer: String,
    /// What is called.
    pub target: Target,
}
