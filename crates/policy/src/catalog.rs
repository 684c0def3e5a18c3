//! The facts about registered agents, tools and skills.

use std::borrow::Cow;

use registry_core::{
    Catalog, Document, Entity, Key, Record,
    entity::{Agent, Skill, Tool, ToolEffect},
    policies::{self, ResourceNames},
};
use serde_json::Value;

use crate::{AgentFacts, Resource, ResourceKind};

/// The facts about a registered tool. An alias has the tags and the effect of the tool behind it too.
pub fn tool(tool: &Tool, find: Find<'_>) -> Resource {
    let ResourceNames { tools, servers, .. } = ResourceNames::of_tool(tool);
    let effect = policies::effect(tool, find);
    let own_tags = |tool: &Tool| tags(tool.metadata.as_ref().and_then(|own| own.get("tags")));
    let mut tags = own_tags(tool);
    for key in policies::tools_behind(tool, find) {
        let behind = find(&key).and_then(|document| document.entity().as_tool());
        tags.extend(behind.map(own_tags).unwrap_or_default());
    }
    tags.sort_unstable();
    tags.dedup();
    Resource {
        kind: ResourceKind::Tool,
        name: tool.name.to_string(),
        version: tool.version.to_string(),
        tools: tools.into_iter().map(Cow::into_owned).collect(),
        skills: Vec::new(),
        servers: servers.into_iter().map(str::to_owned).collect(),
        tags,
        is_destructive: effect == ToolEffect::Destroys,
        is_read_only: effect == ToolEffect::Reads,
        is_open_world: policies::is_open_world(tool, find),
    }
}

/// The facts about a skill of a registered agent. Skills have no annotations, so that they count as
/// destructive.
pub fn skill(agent: &Agent, skill: &Skill) -> Resource {
    let name = format!("{}/{}", agent.name, skill.id);
    let own = agent.metadata.as_ref().and_then(|metadata| metadata.get("tags"));
    let mut tags = tags(own);
    tags.extend(skill.tags.iter().cloned());
    Resource {
        kind: ResourceKind::Skill,
        name: name.clone(),
        version: agent.version.to_string(),
        tools: Vec::new(),
        skills: vec![name],
        servers: Vec::new(),
        tags,
        is_destructive: true,
        is_read_only: false,
        is_open_world: true,
    }
}

/// The facts about a prompt or resource of a registered server.
pub fn feature(kind: ResourceKind, server: &Key, record: Option<&Record>, name: &str) -> Resource {
    let metadata = record.and_then(|record| record.document.entity().metadata());
    Resource {
        kind,
        name: name.to_owned(),
        version: server.version.to_string(),
        tools: Vec::new(),
        skills: Vec::new(),
        servers: vec![server.name.to_string()],
        tags: tags(metadata.and_then(|metadata| metadata.get("tags"))),
        is_destructive: false,
        is_read_only: true,
        is_open_world: false,
    }
}

/// The facts about a registered agent.
pub fn agent(catalog: &Catalog, record: &Record) -> Option<AgentFacts> {
    let Entity::Agent(agent) = record.document.entity() else { return None };
    let mut tags = tags(agent.metadata.as_ref().and_then(|metadata| metadata.get("tags")));
    tags.extend(agent.skills.iter().flat_map(|skill| skill.tags.iter().cloned()));
    tags.sort_unstable();
    tags.dedup();
    Some(AgentFacts {
        name: agent.name.to_string(),
        version: agent.version.to_string(),
        team: catalog.owner_of(record).to_owned(),
        tags,
    })
}

/// Looks up a registered document.
pub type Find<'a> = &'a dyn Fn(&Key) -> Option<&'a Document>;

/// Calls `visit` with each tool or skill of a document, and with its type as a tool.
pub(crate) fn each_resource<'a>(
    find: Find<'_>,
    document: &'a Document,
    visit: &mut dyn FnMut(Resource, Cow<'a, Tool>),
) {
    match document.entity() {
        Entity::Tool(tool) => visit(self::tool(tool, find), Cow::Borrowed(&**tool)),
        Entity::Agent(agent) => {
            for entry in &agent.skills {
                visit(skill(agent, entry), Cow::Owned(entry.as_tool(agent)));
            }
        }
        Entity::Schema(_) | Entity::Server(_) | Entity::Policy(_) => {}
    }
}

fn tags(list: Option<&Value>) -> Vec<String> {
    let tags = list.and_then(Value::as_array).into_iter().flatten();
    tags.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use registry_fixtures::entities::{catalog, server, tool};
    use serde_json::{Value, json};

    use crate::Called;

    #[test]
    fn alias_has_effect_and_tags_behind_it() {
        let members = |hints: Value, tag: &str| {
            let source = json!({ "server": "bank", "serverVersion": "1.0.0", "tool": "charge" });
            json!({ "source": source, "annotations": hints, "metadata": { "tags": [tag] } })
        };
        let catalog = catalog(&[
            server("bank", &["charge"]),
            tool("charge", members(json!({ "destructiveHint": true }), "money")),
            tool("pay", members(json!({ "readOnlyHint": true }), "harmless")),
        ]);
        let record = catalog.find(&"tool/pay@1.0.0".parse().unwrap()).unwrap();
        let alias = record.document.entity().as_tool().unwrap();
        let resource = Called::Tool(&record.document, alias).resource(&catalog).unwrap();
        assert_eq!((resource.is_destructive, resource.is_read_only), (true, false));
        assert_eq!(resource.tags, ["harmless", "money"]);
    }
}
