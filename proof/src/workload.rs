//! The workload: batches of entities that refer to each other, with unique payloads.

use std::sync::{Arc, Mutex, PoisonError};

use history_check::event::{RequestedAction, RequestedChange};
use registry_core::{
    Document, Key, Kind, LifecycleState, Notice, Setting, SettingChange, rules::Proposed,
};
use serde_json::{Value, json};

use crate::rng::Rng;

/// The author of all commits.
pub(crate) const AUTHOR: &str = "tester";

/// The roots of possible scopes.
pub(crate) const ROOTS: [&str; 12] = [
    "agent/planner@*",
    "agent/clerk@*",
    "agent/team/helper@*",
    "tool/read@*",
    "tool/mix@*",
    "server/files@*",
    "schema/Query@*",
    "team/*",
    "tag:finance",
    "tag:ops",
    "agent/planner@1.2.0",
    "server/team/mail@1.3.1",
];

/// A batch to be applied.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) proposed: Vec<Proposed>,
    pub(crate) settings: Vec<SettingChange>,
}

impl Batch {
    /// The changes in the form of a history.
    pub(crate) fn wanted(&self) -> Vec<RequestedChange> {
        let wanted = |proposed: &Proposed| RequestedChange {
            key: proposed.key().to_string(),
            change: match proposed {
                Proposed::Register(document) => {
                    RequestedAction::Register(document.digest().to_string())
                }
                Proposed::SetLifecycle { state, .. } => RequestedAction::State(state.to_string()),
            },
        };
        self.proposed.iter().map(wanted).collect()
    }
}

/// Registered keys that were observed. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownKeys(Arc<Mutex<Vec<Key>>>);

impl KnownKeys {
    pub(crate) fn add(&self, batch: &Batch) {
        let keys = batch.proposed.iter().map(|proposed| proposed.key().clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(keys);
    }

    pub(crate) fn any(&self, rng: &mut Rng) -> Option<Key> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!known.is_empty()).then(|| rng.pick(&known).clone())
    }

    fn any_tool(&self, rng: &mut Rng) -> Option<Key> {
        (0..8).find_map(|_| self.any(rng).filter(|key| key.kind == Kind::Tool))
    }
}

/// Generates the batches of one writer.
#[derive(Debug)]
pub(crate) struct Workload {
    writer: usize,
    made: usize,
    known: KnownKeys,
}

impl Workload {
    pub(crate) fn new(writer: usize, known: KnownKeys) -> Self {
        Self { writer, made: 0, known }
    }

    /// The next batch.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> Batch {
        self.made += 1;
        let kind = rng.below(100);
        let settings = Vec::new();
        let proposed = match kind {
            0..45 => self.family(rng),
            45..60 => vec![self.agent(rng, &[])],
            60..80 => self.lifecycle(rng),
            80..86 => {
                return Batch { proposed: vec![self.schema(rng)], settings: vec![setting(rng)] };
            }
            86..92 => self.with_a_mistake(rng),
            _ => vec![self.schema(rng)],
        };
        Batch { proposed, settings }
    }

    /// A batch that results in a large cache.
    pub(crate) fn bulk(rng: &mut Rng) -> Batch {
        let text = |rng: &mut Rng| {
            let words: Vec<String> = (0..440).map(|_| format!("{:016x}", rng.next())).collect();
            words.join(" ")
        };
        let schema = |number: usize, rng: &mut Rng| {
            register(
                Kind::Schema,
                &json!({
                    "name": format!("Bulk{number}"), "version": "1.0.0", "description": text(rng),
                    "schema": { "type": "string" },
                }),
            )
        };
        let proposed = (0..160).map(|number| schema(number, rng)).collect();
        Batch { proposed, settings: Vec::new() }
    }

    fn version(&self) -> String {
        format!("1.{}.{}", self.made, self.writer)
    }

    /// A unique text.
    fn payload(&self, rng: &mut Rng) -> String {
        format!("payload {}-{} {:016x}", self.writer, self.made, rng.next())
    }

    fn schema(&self, rng: &mut Rng) -> Proposed {
        let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
        let name = *rng.pick(&["Query", "Answer"]);
        let text = self.payload(rng);
        register(
            Kind::Schema,
            &json!({ "name": name, "version": self.version(), "description": text, "schema": schema }),
        )
    }

    /// A schema, a server, its tools, and an agent that depends on them.
    fn family(&self, rng: &mut Rng) -> Vec<Proposed> {
        let version = self.version();
        let schema = self.schema(rng);
        let reference = json!({ "$ref": format!("#{}:{version}", schema.key().name) });
        let (server, tools) =
            *rng.pick(&[("files", ["read", "write"]), ("team/mail", ["send", "mix"])]);
        let provides: Vec<Value> =
            tools.iter().map(|tool| json!({ "tool": tool, "version": version })).collect();
        let text = self.payload(rng);
        let mut batch = vec![
            schema,
            register(
                Kind::Server,
                &json!({ "name": server, "version": version, "description": text, "provides": provides }),
            ),
        ];
        for tool in tools {
            let source = json!({ "server": server, "serverVersion": version, "tool": tool });
            let tags: &[&str] = if rng.chance(30) { &["finance"] } else { &[] };
            batch.push(register(
                Kind::Tool,
                &json!({
                    "name": tool, "version": version, "source": source, "inputSchema": reference,
                    "description": self.payload(rng), "metadata": { "tags": tags },
                }),
            ));
        }
        let own: Vec<Key> = batch[2..].iter().map(|proposed| proposed.key().clone()).collect();
        batch.push(self.agent(rng, &own));
        batch
    }

    /// An agent that depends on these tools, or on a registered one.
    fn agent(&self, rng: &mut Rng, tools: &[Key]) -> Proposed {
        let known = if tools.is_empty() { self.known.any_tool(rng) } else { None };
        let depends: Vec<Value> = tools
            .iter()
            .chain(&known)
            .map(|key| json!({ "type": "tool", "name": key.name.as_str(), "version": key.version.to_string() }))
            .collect();
        let name = *rng.pick(&["planner", "clerk", "team/helper"]);
        let tags: &[&str] = if rng.chance(40) { &["ops"] } else { &[] };
        register(Kind::Agent, &card(name, &self.version(), &self.payload(rng), &depends, tags))
    }

    fn lifecycle(&self, rng: &mut Rng) -> Vec<Proposed> {
        let state = *rng.pick(&[
            LifecycleState::Deprecated,
            LifecycleState::Deprecated,
            LifecycleState::Active,
            LifecycleState::Retired,
        ]);
        let mut batch: Vec<Proposed> = Vec::new();
        for _ in 0..rng.between(1, 4) {
            let Some(key) = self.known.any(rng) else { break };
            if batch.iter().any(|proposed| *proposed.key() == key) {
                continue;
            }
            let mut notice = Notice::default();
            if state != LifecycleState::Active {
                notice.message = Some(self.payload(rng));
                let is_forced = state == LifecycleState::Retired && rng.chance(60);
                notice.force_reason = is_forced.then(|| "the history wants it".to_owned());
            }
            batch.push(Proposed::SetLifecycle { key, state, notice });
        }
        if batch.is_empty() { vec![self.schema(rng)] } else { batch }
    }

    /// A family with one invalid or cyclic reference. No part may become visible.
    fn with_a_mistake(&self, rng: &mut Rng) -> Vec<Proposed> {
        let mut batch = self.family(rng);
        let version = self.version();
        let depends = if rng.chance(50) {
            json!({ "type": "tool", "name": "nowhere", "version": version })
        } else {
            json!({ "type": "agent", "name": "circle", "version": version, "skill": "work" })
        };
        batch.push(register(
            Kind::Agent,
            &card("circle", &version, &self.payload(rng), &[depends], &[]),
        ));
        batch
    }
}

fn card(name: &str, version: &str, text: &str, depends: &[Value], tags: &[&str]) -> Value {
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
    let skill = json!({ "id": "work", "name": "Work", "description": "works", "tags": tags });
    json!({
        "name": name, "version": version, "description": text, "url": "http://localhost",
        "protocolVersion": "0.2.1", "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
        "skills": [skill], "capabilities": { "extensions": [sbom] },
    })
}

fn setting(rng: &mut Rng) -> SettingChange {
    let target = *rng.pick(&["tool/mix", "agent/clerk", "team/*", "*"]);
    let setting = if target.contains('*') || rng.chance(50) {
        let mode = *rng.pick(&["backward", "none"]);
        Setting::Compatibility(mode.parse().ok())
    } else {
        Setting::Archived(rng.chance(30))
    };
    SettingChange { target: target.parse().expect("a selector"), setting }
}

fn register(kind: Kind, value: &Value) -> Proposed {
    let document = Document::parse(kind, value);
    Proposed::Register(Arc::new(document.unwrap_or_else(|found| panic!("{value}: {found:?}"))))
}
