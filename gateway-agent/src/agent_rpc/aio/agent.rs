//! The parts of an agent that its caller may use.
//!
//! A name is that of a registered agent, of a registered server of MCP, or of both: a data agent is
//! registered as both. The agent [`GATEWAY`] has the composed tools.

use std::{borrow::Cow, sync::Arc};

use agent_rpc::{
    help::{AgentType, Help, Method, Modules},
    media::Modality,
};
use gateway_protocol::jsonrpc::{Object, read_string};
use registry_core::{
    Entity, Kind, Name,
    entity::{Agent, Exposure, Skill},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{
    graphs::{GATEWAY, agent_type},
    identity::authenticator::Authentication,
    pipeline::{Directory, Gateway},
    view::{
        ServedTool, Snapshot, TaskSupport, View, definition::definition,
        visible_servers::VisibleServer,
    },
};

/// The member of a tool's metadata that marks it as usable for sampling.
const SAMPLING: &str = "sampling";
/// Maximum methods in an error.
const METHODS: usize = 500;

/// An agent as its caller sees it.
#[derive(Debug)]
pub(super) struct AddressedAgent<'a> {
    gateway: &'a Gateway,
    pub(super) name: &'a Name,
    pub(super) snapshot: Arc<Snapshot>,
    /// All tools of the caller, with those that lists omit.
    view: Arc<View>,
    /// The tools of the agent in the caller's lists, by name.
    tools: Vec<Arc<ServedTool>>,
    /// The server of MCP, if the caller can see it.
    pub(super) server: Option<VisibleServer>,
    /// The registered agent with all skills that the caller may address. The pipeline decides about
    /// their calls.
    reachable: Option<Agent>,
    /// The same with the skills in the caller's lists.
    skilled: Option<Agent>,
    /// How the agent is called.
    kind: AgentType,
}

impl<'a> AddressedAgent<'a> {
    /// Finds an agent as its caller sees it now.
    pub(super) fn find(gateway: &'a Gateway, caller: &Authentication, name: &'a Name) -> Self {
        let directory = Directory::of(gateway, caller);
        let reachable = directory.find(name, None);
        let skilled = reachable.clone().and_then(|agent| directory.listed(agent));
        let (snapshot, view) = (Arc::clone(directory.snapshot()), directory.all_tools());
        let servers = directory.visible_servers(&view);
        let server = servers.iter().find(|visible| visible.server.name == *name);
        let listed = Arc::clone(&view).at(gateway.staleness().check().level);
        let is_callable = |served: &&Arc<ServedTool>| {
            is_of(served, name) && served.task_support() != TaskSupport::Required
        };
        let mut tools: Vec<_> = listed.listed().filter(is_callable).cloned().collect();
        tools.sort_by(|a, b| a.listed_name().cmp(b.listed_name()));
        Self {
            gateway,
            name,
            tools,
            server: server.cloned(),
            reachable: reachable.and_then(|agent| agent.agent()),
            skilled: skilled.and_then(|agent| agent.agent()),
            kind: agent_type(&snapshot.catalog, name.as_str()),
            view,
            snapshot,
        }
    }

    /// Whether the caller may use something of the agent.
    pub(super) fn is_known(&self) -> bool {
        !self.tools.is_empty() || self.server.is_some() || self.skilled.is_some()
    }

    /// How the agent is called.
    pub(super) fn kind(&self) -> AgentType {
        self.kind
    }

    pub(super) fn modules(&self) -> Modules {
        let exposes = |what| self.server.as_ref().is_some_and(|server| server.exposes(what));
        Modules {
            resources: exposes(Exposure::Resources),
            prompts: exposes(Exposure::Prompts),
            tools: !self.tools.is_empty(),
            sampling: self.skilled.is_some() || self.sampling_tool().is_some(),
        }
    }

    /// The tool that sampling calls: the first one that is marked.
    pub(super) fn sampling_tool(&self) -> Option<&Arc<ServedTool>> {
        let is_marked = |served: &&Arc<ServedTool>| {
            let metadata = served.tool().metadata.as_ref();
            metadata.and_then(|all| all.get(SAMPLING)).and_then(Value::as_bool) == Some(true)
        };
        self.tools.iter().find(is_marked)
    }

    /// The tools of an agent that is not `mcp`.
    pub(super) fn functions(&self) -> &[Arc<ServedTool>] {
        if self.kind == AgentType::Http { &self.tools } else { &[] }
    }

    /// Finds a tool by its registered name, with or without the name of the agent before a dot. Tools
    /// that lists omit are found, too: the pipeline decides about their calls.
    pub(super) fn tool(&self, name: &str) -> Option<Arc<ServedTool>> {
        let lookup = self.gateway.views().lookup(&self.snapshot);
        let own = format!("{}.{name}", self.name);
        let names =
            [name, own.as_str()].into_iter().filter_map(|name| Name::parse(Kind::Tool, name).ok());
        let mut found = names.filter_map(|name| {
            let served = self.view.find(&name).cloned().or_else(|| lookup.newest(&name))?;
            is_of(&served, self.name).then_some(served)
        });
        found.next()
    }

    /// The name of a tool after `agent::`.
    fn method_name<'t>(&self, served: &'t ServedTool) -> &'t str {
        served.function_of(self.name.as_str()).unwrap_or(served.listed_name().as_str())
    }

    /// A skill, and whether it takes text instead of data.
    pub(super) fn skill(&self, id: &str) -> Option<(&Skill, bool)> {
        let agent = self.reachable.as_ref()?;
        agent.skill(id).map(|skill| (skill, skill.takes_text(agent)))
    }

    /// The first skill that accepts a kind of values, else the first one.
    pub(super) fn skill_for(&self, modality: Modality) -> Option<&Skill> {
        let agent = self.reachable.as_ref()?;
        let accepts = |skill: &&Skill| {
            modes(agent, skill).iter().any(|mode| Modality::of_mode(mode).contains(&modality))
        };
        agent.skills.iter().find(accepts).or(agent.skills.first())
    }

    /// The entries of `tools/list` as JSON text.
    pub(super) fn definitions(&self) -> Vec<String> {
        self.tools.iter().map(|served| definition(served)).collect()
    }

    /// The methods that the caller may use, without the agent.
    pub(super) fn available_methods(&self) -> Vec<String> {
        let Modules { resources, prompts, tools, sampling } = self.modules();
        let has_names = self.skilled.is_some() || !self.functions().is_empty();
        let fixed = [
            (true, "help"),
            (has_names, "input"),
            (tools, "tools.list"),
            (tools, "tools.call"),
            (resources, "resources.list"),
            (resources, "resources.get"),
            (prompts, "prompts.list"),
            (prompts, "prompts.get"),
            (sampling, "sampling.start"),
            (sampling, "sampling.step"),
        ];
        let fixed = fixed.into_iter().filter(|(has, _)| *has).map(|(_, name)| name.to_owned());
        let skills = self.skilled.iter().flat_map(|agent| &agent.skills);
        let skills = skills.map(|skill| skill.id.clone());
        let functions = self.functions().iter().map(|tool| self.method_name(tool).to_owned());
        fixed.chain(skills).chain(functions).take(METHODS).collect()
    }

    /// The answer of `help`.
    pub(super) fn help(&self) -> Help {
        let (description, version) = self.about();
        let skills = self.skilled.iter().flat_map(|agent| {
            agent.skills.iter().map(|skill| Method {
                name: skill.id.clone(),
                description: skill.description.clone(),
                input_schema: skill
                    .as_tool(agent)
                    .input_schema
                    .and_then(|schema| to_raw_value(&schema).ok()),
            })
        });
        let tools = self.tools.iter().map(|served| {
            let entry = RawValue::from_string(definition(served)).unwrap_or_default();
            let members = Object::parse(&entry).unwrap_or_default();
            let description = members.find("description").and_then(read_string);
            Method {
                name: self.method_name(served).to_owned(),
                description: description.map(Cow::into_owned).unwrap_or_default(),
                input_schema: members.find("inputSchema").map(ToOwned::to_owned),
            }
        });
        Help {
            kind: self.kind(),
            description,
            version,
            methods: skills.chain(tools).collect(),
            modalities: self.modalities(),
            mcp: self.modules(),
        }
    }

    /// The description and the version: those of the agent, else those of the server.
    fn about(&self) -> (String, String) {
        if let Some(agent) = &self.skilled {
            return (agent.description.clone(), agent.version.to_string());
        }
        let versions = self.snapshot.catalog.preferred_versions(Kind::Agent, self.name);
        // A data agent is registered, and its caller sees its functions.
        let agent = versions.first().filter(|_| !self.tools.is_empty());
        if let Some(Entity::Agent(agent)) = agent.map(|record| record.document.entity()) {
            return (agent.description.clone(), agent.version.to_string());
        }
        let server = self.tools.iter().find_map(|served| served.server());
        let server = self.server.as_ref().map(|visible| &visible.server).or(server);
        let record = server.and_then(|server| self.snapshot.catalog.find(server));
        match record.map(|record| record.document.entity()) {
            Some(Entity::Server(server)) => {
                (server.description.clone().unwrap_or_default(), server.version.to_string())
            }
            _ => (String::new(), String::new()),
        }
    }

    /// The kinds of values that the agent accepts. Tools take text, and objects as files.
    fn modalities(&self) -> Vec<Modality> {
        let Some(agent) = &self.skilled else { return vec![Modality::Text, Modality::File] };
        let accepted: Vec<_> = agent
            .skills
            .iter()
            .flat_map(|skill| modes(agent, skill))
            .flat_map(|mode| Modality::of_mode(mode))
            .collect();
        Modality::ALL.into_iter().filter(|modality| accepted.contains(&modality)).collect()
    }
}

/// Whether a tool belongs to an agent: its server has the name of the agent, or its own name has it
/// before a dot.
fn is_of(served: &ServedTool, agent: &Name) -> bool {
    if served.composed().is_some() {
        return agent.as_str() == GATEWAY;
    }
    let Some(provider) = served.server().filter(|key| key.kind == Kind::Server) else {
        return false;
    };
    provider.name == *agent || served.function_of(agent.as_str()).is_some()
}

/// The media types that a skill accepts.
fn modes<'s>(agent: &'s Agent, skill: &'s Skill) -> &'s [String] {
    if skill.input_modes.is_empty() { &agent.default_input_modes } else { &skill.input_modes }
}
