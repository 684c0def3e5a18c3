//! An A2A agent of this process: identity, skills and tasks.

use std::time::Duration;

use serde_json::{Value, json};

use super::tasks::Tasks;
use super::wire::{Failure, Part, Protocol, State};
use crate::clock::Clock;

/// The definition of an agent that can be served.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The registered name.
    pub name: &'static str,
    /// The registered version.
    pub version: &'static str,
    /// The path it is served at.
    pub path: &'static str,
    /// The description in its card.
    pub description: &'static str,
    /// The only version of A2A that it speaks.
    pub protocol: Protocol,
    /// The bearer token that callers need.
    pub token: Option<&'static str>,
    /// Its skills. A message without a skill is for the first.
    pub skills: &'static [Skill],
}

/// A skill of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Skill {
    /// The id.
    pub id: &'static str,
    /// The display name.
    pub name: &'static str,
    /// The description in the card.
    pub description: &'static str,
    /// Plans the work for a message.
    pub plan: fn(&Input) -> Result<Work, Failure>,
}

/// The content of a message.
#[derive(Debug, Default)]
pub struct Input {
    /// Its text.
    pub text: String,
    /// Its data.
    pub data: Option<Value>,
}

/// The work of a skill on a message.
#[derive(Debug)]
pub enum Work {
    /// Answers at once.
    Reply(Part),
    /// Works on a task, whose last step ends it.
    Task(Vec<Step>),
}

/// An event of a task, some time after the one before.
#[derive(Debug)]
pub struct Step {
    /// The delay.
    pub after: Duration,
    /// The event.
    pub event: Event,
}

/// A change of a task.
#[derive(Debug, Clone)]
pub enum Event {
    /// Another state, with the words of the agent.
    Status(State, Option<String>),
    /// The result.
    Artifact(Part),
}

/// An agent with its tasks.
#[derive(Debug)]
pub struct HostedAgent {
    pub(super) definition: Definition,
    pub(super) tasks: Tasks,
}

impl Input {
    /// A text in the data.
    pub fn field(&self, name: &str) -> Result<&str, Failure> {
        let value = self.data.as_ref().and_then(|data| data[name].as_str());
        value.ok_or_else(|| Failure::invalid(format!("the data has no text `{name}`")))
    }
}

impl Step {
    /// The agent reports its progress.
    pub fn progress(after_ms: u64, words: impl Into<String>) -> Self {
        let after = Duration::from_millis(after_ms);
        Self { after, event: Event::Status(State::Working, Some(words.into())) }
    }

    /// The result, and the end of the task.
    pub fn result(after_ms: u64, part: Part) -> [Self; 2] {
        let after = Duration::from_millis(after_ms);
        [
            Self { after, event: Event::Artifact(part) },
            Self { after: Duration::ZERO, event: Event::Status(State::Completed, None) },
        ]
    }
}

impl HostedAgent {
    pub(super) fn new(definition: Definition, clock: Clock) -> Self {
        Self { definition, tasks: Tasks::new(clock) }
    }

    /// The registered name.
    pub fn name(&self) -> &'static str {
        self.definition.name
    }

    /// The path it is served at.
    pub fn path(&self) -> &'static str {
        self.definition.path
    }

    /// Its skills.
    pub fn skills(&self) -> &'static [Skill] {
        self.definition.skills
    }

    /// The card, given the URL that clients use.
    pub(super) fn card(&self, url: &str) -> Value {
        let agent = &self.definition;
        let skill = |skill: &Skill| {
            json!({ "id": skill.id, "name": skill.name, "description": skill.description,
                "tags": ["demo"] })
        };
        let modes = json!(["text/plain", "application/json"]);
        let mut card = json!({
            "name": agent.name, "version": agent.version, "description": agent.description,
            "defaultInputModes": modes, "defaultOutputModes": modes,
            "capabilities": { "streaming": true, "pushNotifications": false },
            "skills": agent.skills.iter().map(skill).collect::<Vec<_>>(),
        });
        agent.protocol.add_interface(&mut card, url);
        if agent.token.is_some() {
            agent.protocol.add_bearer_scheme(&mut card);
        }
        card
    }
}
