//! The facts about a call that policies use.

use std::{collections::BTreeSet, time::SystemTime};

use registry_core::entity::policy::{AppliesTo, CallerPattern};

/// The operation of a call on its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Calls a tool.
    Call,
    /// Gets a prompt.
    Get,
    /// Reads a resource.
    Read,
    /// Completes an argument of a prompt or resource template.
    Complete,
    /// Subscribes to a resource.
    Subscribe,
    /// Sends a message to a skill.
    Send,
    /// Cancels a task.
    Cancel,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 7] = [
        Self::Call,
        Self::Get,
        Self::Read,
        Self::Complete,
        Self::Subscribe,
        Self::Send,
        Self::Cancel,
    ];

    /// Whether calls have arguments that conditions can read.
    pub fn has_arguments(self) -> bool {
        matches!(self, Self::Call | Self::Send)
    }

    /// The id of the Cedar action.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Get => "get",
            Self::Read => "read",
            Self::Complete => "complete",
            Self::Subscribe => "subscribe",
            Self::Send => "send",
            Self::Cancel => "cancel",
        }
    }
}

/// The kind of a called resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A tool.
    Tool,
    /// A skill of an agent.
    Skill,
    /// A prompt.
    Prompt,
    /// A resource of a server.
    Resource,
}

impl ResourceKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Skill, Self::Prompt, Self::Resource];

    /// The Cedar entity type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "Tool",
            Self::Skill => "Skill",
            Self::Prompt => "Prompt",
            Self::Resource => "Resource",
        }
    }

    /// The actions on resources of the kind.
    pub fn actions(self) -> &'static [Action] {
        match self {
            Self::Tool => &[Action::Call, Action::Cancel],
            Self::Skill => &[Action::Send, Action::Cancel],
            Self::Prompt => &[Action::Get, Action::Complete],
            Self::Resource => &[Action::Read, Action::Complete, Action::Subscribe],
        }
    }
}

/// A called tool, skill, prompt or resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Its kind.
    pub kind: ResourceKind,
    /// The name that the caller uses.
    pub name: String,
    /// The registered version of the tool or the agent; the server's for prompts and resources.
    pub version: String,
    /// All names of the tool that selectors match: the called one, and those of the tools behind it.
    pub tools: Vec<String>,
    /// The skills behind it: `AGENT/SKILL`.
    pub skills: Vec<String>,
    /// The servers behind it.
    pub servers: Vec<String>,
    /// The tags of the registered tool, agent or server.
    pub tags: Vec<String>,
    /// Whether a call may perform destructive updates.
    pub is_destructive: bool,
    /// Whether a call changes nothing.
    pub is_read_only: bool,
    /// Whether a call may act outside of its server.
    pub is_open_world: bool,
}

/// The registered facts about a calling agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentFacts {
    /// The name, with its namespace.
    pub name: String,
    /// The version.
    pub version: String,
    /// The team that owns the name.
    pub team: String,
    /// The tags of the agent and its skills.
    pub tags: Vec<String>,
}

/// The caller as policies see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A registered agent.
    Agent(AgentFacts),
    /// No registered agent. The catalog is complete.
    Unregistered,
    /// An agent that a scoped catalog does not contain, if it is registered at all.
    Unknown,
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A call by a client.
    Call,
    /// A step of a composition.
    Step,
    /// A step that compensates an earlier one.
    Compensation,
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Self; 3] = [Self::Call, Self::Step, Self::Compensation];

    /// The purpose with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == name)
    }

    /// Whether rates and limits on traces apply. Compensations must not fail because of them.
    pub fn is_limited(self) -> bool {
        matches!(self, Self::Call | Self::Step)
    }

    /// The name in conditions and audit events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Step => "step",
            Self::Compensation => "compensation",
        }
    }
}

/// The circumstances of one call.
#[derive(Debug, Clone)]
pub struct CallContext<'a> {
    /// The issuer of the caller's token.
    pub issuer: &'a str,
    /// The subject of the caller's credential.
    pub subject: &'a str,
    /// The authentication method.
    pub method: &'a str,
    /// The OAuth scopes of the caller's token.
    pub scopes: &'a BTreeSet<String>,
    /// The purpose.
    pub purpose: Purpose,
    /// The number of gateways and compositions that the call passed through before.
    pub hops: u32,
    /// The time of the call.
    pub time: SystemTime,
}

/// Whether a selector matches a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerMatch {
    /// It matches.
    Yes,
    /// It does not match.
    No,
    /// The facts are unknown: forbids, rates and limits apply, and permits do not.
    Unknown,
}

impl Caller {
    /// Whether the caller selector of a policy matches.
    pub(crate) fn matches(&self, selector: &AppliesTo) -> CallerMatch {
        if selector.callers.is_empty() {
            return CallerMatch::Yes;
        }
        let is_match = match self {
            Self::Unregistered => false,
            Self::Unknown => return CallerMatch::Unknown,
            Self::Agent(agent) => selector.callers.iter().any(|pattern| match pattern {
                CallerPattern::Agent(pattern) => pattern.matches(&agent.name),
                CallerPattern::Tag(tag) => agent.tags.iter().any(|own| **own == **tag),
            }),
        };
        if is_match { CallerMatch::Yes } else { CallerMatch::No }
    }
}

impl Resource {
    /// Whether calls need an approval of destructive calls: they change data, or act outside of their
    /// server.
    pub(crate) fn needs_approval(&self) -> bool {
        !self.is_read_only && (self.is_destructive || self.is_open_world)
    }

    /// The names that exact selectors match.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().chain(&self.skills).chain(&self.servers).map(String::as_str)
    }

    /// Whether the resource selectors of a policy match.
    pub(crate) fn is_selected(&self, selector: &AppliesTo) -> bool {
        self.is_named(selector) && self.has_effect(selector)
    }

    /// Whether a policy selects whether the resource may perform destructive updates.
    pub(crate) fn has_effect(&self, selector: &AppliesTo) -> bool {
        selector.destructive.is_none_or(|destructive| destructive == self.is_destructive)
    }

    /// Whether the lists of tools, skills and servers match.
    pub(crate) fn is_named(&self, selector: &AppliesTo) -> bool {
        let Self { tools, skills, servers, .. } = self;
        let [tools, skills, servers] =
            [tools, skills, servers].map(|names| names.iter().map(String::as_str));
        selector.selects_names(tools, skills, servers)
    }
}
