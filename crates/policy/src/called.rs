//! Calls of registered tools, skills, prompts and resources.

use std::sync::Arc;

use registry_core::{Catalog, Document, Entity, Key, entity::Tool, scope::Scope};

use crate::{
    Action, ApplicablePolicies, Caller, PoliciesInForce, Resource, ResourceKind,
    arguments::ArgumentType,
    catalog::{self, Find},
};

/// A tool, skill, prompt or resource that is called.
#[derive(Debug, Clone, Copy)]
pub enum Called<'a> {
    /// A registered tool.
    Tool(&'a Document, &'a Tool),
    /// A skill of a registered agent.
    Skill(&'a Document, &'a Arc<str>),
    /// A prompt or resource of a server.
    Feature(ResourceKind, &'a Key, &'a str),
}

impl Called<'_> {
    /// The action of a call.
    pub fn action(&self) -> Action {
        match self {
            Self::Tool(..) => Action::Call,
            Self::Skill(..) => Action::Send,
            Self::Feature(ResourceKind::Prompt, ..) => Action::Get,
            Self::Feature(..) => Action::Read,
        }
    }

    /// The facts that policies use. `None`: the skill is not registered.
    pub fn resource(&self, catalog: &Catalog) -> Option<Resource> {
        match self {
            Self::Tool(_, tool) => {
                let find: Find<'_> = &|key| catalog.find(key).map(|record| &*record.document);
                Some(catalog::tool(tool, find))
            }
            Self::Skill(document, skill) => match document.entity() {
                Entity::Agent(agent) => Some(catalog::skill(agent, agent.skill(skill)?)),
                _ => None,
            },
            Self::Feature(kind, server, name) => {
                let record = catalog.find(server).map(|record| &**record);
                Some(catalog::feature(*kind, server, record, name))
            }
        }
    }

    /// The types of the arguments.
    pub fn arguments(&self, catalog: &Catalog) -> ArgumentType {
        let find: Find<'_> = &|key| catalog.find(key).map(|record| &*record.document);
        let skill_type = |document: &Document, skill: &str| match document.entity() {
            Entity::Agent(agent) => {
                Some(ArgumentType::of_tool(find, &agent.skill(skill)?.as_tool(agent)))
            }
            _ => None,
        };
        let arguments = match self {
            Self::Tool(_, tool) => Some(ArgumentType::of_tool(find, tool)),
            Self::Skill(document, skill) => skill_type(document, skill),
            Self::Feature(..) => None,
        };
        arguments.unwrap_or_else(|| ArgumentType::of_schema(None, &|_| None))
    }
}

impl Caller {
    /// The caller of a registered agent, or without one. A scoped catalog lacks agents that a
    /// complete one has.
    pub fn registered(catalog: &Catalog, agent: Option<&Key>) -> Self {
        let Some(agent) = agent else {
            let is_complete = **catalog.scope() == Scope::Everything;
            return if is_complete { Self::Unregistered } else { Self::Unknown };
        };
        let record = catalog.find(agent);
        let facts = record.and_then(|record| catalog::agent(catalog, record));
        facts.map_or(Self::Unregistered, Self::Agent)
    }
}

impl PoliciesInForce {
    /// The policies that apply to calls by a caller. `None`: none applies.
    pub fn applicable_to(
        &self,
        catalog: &Catalog,
        caller: &Caller,
        target: Called<'_>,
    ) -> Option<ApplicablePolicies> {
        let resource = target.resource(catalog)?;
        self.applicable(caller, &resource, || target.arguments(catalog))
    }
}
