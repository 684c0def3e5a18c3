//! The policies in force, and the entities that they select.
//!
//! Selection by name uses only the document of the entity, so that a scoped catalog and the whole
//! one give the same result.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use crate::{
    catalog::{Catalog, Record},
    document::Document,
    entity::{
        Dependency, Entity, Hints, Implementation, Tool, ToolEffect,
        policy::{AppliesTo, Pattern, Policy},
    },
    kind::Kind,
    lifecycle::LifecycleState,
    name::{Name, closest_name},
    reference::Key,
};

/// Prefix of the names of emergency policies. Only governors register, retire and set such names, so
/// that a stopped team cannot prepare or undo a stop, even for names that it owns.
pub const EMERGENCY_PREFIX: &str = "stop-";

/// The versions of one policy that gateways evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveVersions<'a> {
    /// The highest version that is not a pre-release, unless it is retired.
    pub in_force: Option<&'a Arc<Record>>,
    /// The highest version, if it is a pre-release and not retired. It is evaluated in audit mode.
    pub candidate: Option<&'a Arc<Record>>,
}

impl<'a> EffectiveVersions<'a> {
    /// The effective versions among all versions of a policy, lowest first.
    fn among(versions: &[&'a Arc<Record>]) -> Self {
        let [release, candidate] =
            highest(versions).map(|found| found.filter(|one| one.is_usable()));
        Self { in_force: release, candidate }
    }

    /// The version in force, then the candidate.
    pub fn iter(self) -> impl Iterator<Item = &'a Arc<Record>> {
        self.in_force.into_iter().chain(self.candidate)
    }
}

/// The highest release among versions, lowest first, and the highest version if it is a pre-release.
fn highest<'a>(versions: &[&'a Arc<Record>]) -> [Option<&'a Arc<Record>>; 2] {
    let is_prerelease = |record: &Record| record.document.key().version.is_prerelease();
    let release = versions.iter().rfind(|record| !is_prerelease(record));
    let candidate = versions.last().filter(|record| is_prerelease(record));
    [release.copied(), candidate.copied()]
}

impl Catalog {
    /// The highest release of a policy, and the pre-release above it, even if they are retired.
    pub fn highest_policy_versions<'a>(
        &'a self,
        name: &'a Name,
    ) -> impl Iterator<Item = &'a Arc<Record>> {
        let versions: Vec<_> =
            self.versions(Kind::Policy, name).map(|(_, record)| record).collect();
        highest(&versions).into_iter().flatten()
    }

    /// The effective versions of each policy, by name. Cost: linear in the versions of all policies.
    pub fn effective_policies(&self) -> Vec<EffectiveVersions<'_>> {
        let versions: Vec<_> = self.of_kind(Kind::Policy).map(|(_, record)| record).collect();
        let is_same_name =
            |a: &&Arc<Record>, b: &&Arc<Record>| a.document.key().name == b.document.key().name;
        versions.chunk_by(is_same_name).map(EffectiveVersions::among).collect()
    }

    /// The policies in force, by name: the highest version of each that is not a pre-release,
    /// unless it is retired. Cost: linear in the versions of all policies.
    pub fn policies_in_force(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.effective_policies().into_iter().filter_map(|versions| versions.in_force)
    }

    /// The pre-releases that are evaluated in audit mode, by name.
    pub fn policy_candidates(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.effective_policies().into_iter().filter_map(|versions| versions.candidate)
    }

    /// The registered entities that a policy selects, except retired ones. Cost: linear in the
    /// number of entities, whose documents are parsed.
    pub fn selected_by(&self, policy: &Policy) -> impl Iterator<Item = &Arc<Record>> {
        let selector = &policy.applies_to;
        let records = self.iter().map(|(_, record)| record);
        records.filter(move |record| {
            record.lifecycle.state != LifecycleState::Retired
                && self.is_selected(selector, record.document.without_entity().entity())
        })
    }

    /// Whether a selector selects an entity, or something that it offers.
    pub fn is_selected(&self, selector: &AppliesTo, entity: &Entity) -> bool {
        ResourceNames::of(entity).is_some_and(|names| selector.selects(&names))
            && selector.destructive.is_none_or(|wanted| match entity {
                Entity::Tool(tool) => wanted == self.is_destructive(tool),
                // Skills have no annotations. The effect of prompts and resources is unknown here.
                _ => true,
            })
    }

    /// Whether a call of a registered tool may perform destructive updates ([`effect`]).
    pub fn is_destructive(&self, tool: &Tool) -> bool {
        let find = |key: &Key| self.find(key).map(|record| &*record.document);
        effect(tool, &find) == ToolEffect::Destroys
    }
}

/// The effect of a call of a registered tool: the most harmful one among its annotations, those of
/// the tool behind an alias, and those of the tools that a composition calls. A tool without
/// annotations, and a skill, is destructive.
pub fn effect<'d>(tool: &Tool, find: &dyn Fn(&Key) -> Option<&'d Document>) -> ToolEffect {
    let mut effect = ToolEffect::Reads;
    let is_known = visit_called(tool, find, &mut |tool| effect = effect.max(declared_effect(tool)));
    if is_known { effect } else { ToolEffect::Destroys }
}

/// Whether a call of a registered tool may act outside of its server, by the same annotations as
/// [`effect`].
pub fn is_open_world<'d>(tool: &Tool, find: &dyn Fn(&Key) -> Option<&'d Document>) -> bool {
    let mut is_open = false;
    let is_known = visit_called(tool, find, &mut |tool| {
        is_open |= match (&tool.annotations, &tool.implementation) {
            (Some(annotations), _) => Hints::from_annotations(annotations).is_open_world,
            (None, Implementation::Source(_)) => true,
            (None, Implementation::Spec(_)) => false,
        };
    });
    is_open || !is_known
}

/// Visits a tool, the tool behind an alias, and the tools that a composition calls. Returns whether all
/// are registered.
fn visit_called<'d>(
    tool: &Tool,
    find: &dyn Fn(&Key) -> Option<&'d Document>,
    visit: &mut dyn FnMut(&Tool),
) -> bool {
    let called = |tool: &Tool| match tool.implementation {
        Implementation::Source(_) => tools_behind(tool, find),
        Implementation::Spec(_) => tool.depends.iter().map(Dependency::key).collect(),
    };
    visit(tool);
    let mut open = called(tool);
    let mut seen = BTreeSet::new();
    while let Some(key) = open.pop() {
        let Some(tool) = find(&key).and_then(|document| document.entity().as_tool()) else {
            return false;
        };
        if seen.insert(key) {
            visit(tool);
            open.extend(called(tool));
        }
    }
    true
}

/// The effect by the annotations of a tool. The tools that it calls decide that of a composition
/// without annotations.
fn declared_effect(tool: &Tool) -> ToolEffect {
    match (&tool.annotations, &tool.implementation) {
        (Some(annotations), _) => Hints::from_annotations(annotations).effect,
        (None, Implementation::Source(_)) => ToolEffect::Destroys,
        (None, Implementation::Spec(_)) => ToolEffect::Reads,
    }
}

/// The tools behind an alias: those of other names that its server provides for the upstream tool.
pub fn tools_behind<'d>(tool: &Tool, find: &dyn Fn(&Key) -> Option<&'d Document>) -> Vec<Key> {
    let Some(source) = tool.source() else { return Vec::new() };
    let mut names = ResourceNames::of_tool(tool).tools;
    names.retain(|name| **name != *tool.name.as_str());
    if names.is_empty() {
        return Vec::new();
    }
    let server = find(&source.server_key()).map(Document::entity);
    let Some(Entity::Server(server)) = server else { return Vec::new() };
    let provided = server.provides.iter();
    let behind = provided.filter(|one| names.iter().any(|name| **name == *one.tool.as_str()));
    behind.map(|one| Key::new(Kind::Tool, one.tool.clone(), one.version.clone())).collect()
}

/// The names of an entity that selectors match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceNames<'a> {
    /// The name of a tool, and that of the upstream tool behind it.
    pub tools: Vec<Cow<'a, str>>,
    /// The skills of an agent: `AGENT/SKILL`.
    pub skills: Vec<String>,
    /// The server, or the one behind a tool.
    pub servers: Vec<&'a str>,
}

impl<'a> ResourceNames<'a> {
    /// The names of a tool, an agent or a server; `None` for entities that cannot be called.
    pub fn of(entity: &'a Entity) -> Option<Self> {
        match entity {
            Entity::Schema(_) | Entity::Policy(_) => None,
            Entity::Server(server) => {
                Some(Self { servers: vec![server.name.as_str()], ..Self::default() })
            }
            Entity::Tool(tool) => Some(Self::of_tool(tool)),
            Entity::Agent(agent) => {
                let skill = |id: &str| format!("{}/{id}", agent.name);
                let skills = agent.skills.iter().map(|found| skill(&found.id)).collect();
                Some(Self { skills, ..Self::default() })
            }
        }
    }

    /// The names of a tool. An alias has the name of its upstream tool too, so that a policy about
    /// the tool selects its aliases.
    pub fn of_tool(tool: &'a Tool) -> Self {
        let mut names = Self { tools: vec![tool.name.as_str().into()], ..Self::default() };
        if let Some(source) = tool.source() {
            names.servers.push(source.server.as_str());
            // A tool whose upstream name is no valid name is registered by the closest one.
            let registered = closest_name(Kind::Tool, &source.tool);
            let registered = registered.map(|name| Cow::Owned(name.as_str().to_owned()));
            names.tools.extend([Cow::Borrowed(source.tool.as_str())].into_iter().chain(registered));
            names.tools.sort_unstable();
            names.tools.dedup();
        }
        names
    }
}

impl AppliesTo {
    /// Whether the lists of tools, skills and servers match one of these names, or are absent.
    pub fn selects(&self, names: &ResourceNames<'_>) -> bool {
        let ResourceNames { tools, skills, servers } = names;
        let tools = tools.iter().map(|name| &**name);
        self.selects_names(tools, skills.iter().map(String::as_str), servers.iter().copied())
    }

    /// Like [`Self::selects`], without a copy of the names.
    pub fn selects_names<'a>(
        &self,
        tools: impl Iterator<Item = &'a str>,
        skills: impl Iterator<Item = &'a str>,
        servers: impl Iterator<Item = &'a str>,
    ) -> bool {
        !self.names_resources()
            || any(&self.tools, tools)
            || any(&self.skills, skills)
            || any(&self.servers, servers)
    }
}

fn any<'a>(patterns: &[Pattern], mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| patterns.iter().any(|pattern| pattern.matches(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::{
        Proposed,
        testing::{agent, catalog, policy, server, set, source_tool, tool, versioned},
    };

    fn keys<'a>(records: impl Iterator<Item = &'a Arc<Record>>) -> Vec<String> {
        records.map(|record| record.document.key().to_string()).collect()
    }

    #[test]
    fn highest_release_is_in_force_until_retired() {
        let versions = ["1.0.0", "1.10.0", "1.9.0", "2.0.0-rc.1", "2.0.0-rc.2", "1.10.0-rc.1"];
        let p = policy("p", json!({}));
        let mut log: Vec<Proposed> = versions.iter().map(|v| versioned(&p, v)).collect();
        let mut after = |change: Option<Proposed>| {
            log.extend(change);
            let catalog = catalog(&log);
            (keys(catalog.policies_in_force()), keys(catalog.policy_candidates()))
        };
        let one = |key: &str| vec![key.to_owned()];
        assert_eq!(after(None), (one("policy/p@1.10.0"), one("policy/p@2.0.0-rc.2")));
        let off = set("policy/p@2.0.0-rc.2", LifecycleState::Retired, None);
        assert_eq!(after(Some(off)), (one("policy/p@1.10.0"), vec![]));
        let old = set("policy/p@1.10.0", LifecycleState::Deprecated, None);
        assert_eq!(after(Some(old)).0, one("policy/p@1.10.0"));
        let off = set("policy/p@1.10.0", LifecycleState::Retired, None);
        assert_eq!(after(Some(off)), (vec![], vec![]));
    }

    #[test]
    fn selector_matches_aliases_by_upstream_name() {
        let source =
            |name: &str| json!({ "server": "bank", "serverVersion": "1.0.0", "tool": name });
        let alias = |name, upstream| tool(name, json!({ "source": source(upstream) }));
        let read = tool(
            "balance",
            json!({ "source": source("balance"), "annotations": { "readOnlyHint": true } }),
        );
        let catalog = catalog(&[
            server("bank", &["charge", "balance", "pay_all"]),
            source_tool("charge", "bank"),
            alias("pay", "charge"),
            alias("odd", "pay all"),
            read,
            agent("team/clerk", &json!([])),
            policy("p", json!({})),
        ]);
        let selected = |applies_to: Value| {
            let proposed = policy("q", json!({ "appliesTo": applies_to }));
            let Entity::Policy(policy) = proposed.document().unwrap().entity() else { panic!() };
            keys(catalog.selected_by(policy)).join(" ")
        };
        for (applies_to, expected) in [
            (json!({ "tools": ["charge"] }), "tool/charge@1.0.0 tool/pay@1.0.0"),
            (json!({ "tools": ["pay_all"] }), "tool/odd@1.0.0"),
            (json!({ "tools": ["p*"], "destructive": false }), ""),
            (json!({ "tools": ["*"], "destructive": false }), "tool/balance@1.0.0"),
            (
                json!({ "servers": ["b*"], "destructive": true }),
                "server/bank@1.0.0 tool/charge@1.0.0 tool/odd@1.0.0 tool/pay@1.0.0",
            ),
            (json!({ "skills": ["team/*/rest", "clerk/*"] }), ""),
            (json!({ "skills": ["team/*"] }), "agent/team/clerk@1.0.0"),
        ] {
            assert_eq!(selected(applies_to.clone()), expected, "{applies_to}");
        }
        assert_eq!(selected(json!({})).split(' ').count(), 6);
    }

    #[test]
    fn effect_of_alias_includes_tool_behind_it() {
        let source = |name: &str, hints: Value| {
            let source = json!({ "server": "bank", "serverVersion": "1.0.0", "tool": name });
            json!({ "source": source, "annotations": hints })
        };
        let adds = json!({ "destructiveHint": false });
        let reads = json!({ "readOnlyHint": true });
        let steps = |name: &str, callee: &str| {
            let depends = json!([{ "type": "tool", "name": callee, "version": "1.0.0" }]);
            let members = json!({ "spec": {}, "depends": depends, "annotations": reads });
            tool(name, members)
        };
        let catalog = catalog(&[
            server("bank", &["charge", "balance", "note"]),
            tool("charge", source("charge", json!({ "destructiveHint": true }))),
            tool("balance", source("balance", reads.clone())),
            tool("note", source("note", adds.clone())),
            tool("pay", source("charge", adds.clone())),
            tool("look", source("balance", reads.clone())),
            tool("scribble", source("note", reads.clone())),
            tool("drop", source("balance", json!({}))),
            steps("pay_in_steps", "pay"),
            steps("look_in_steps", "look"),
        ]);
        let find = |key: &Key| catalog.find(key).map(|record| &*record.document);
        for (name, expected) in [
            ("charge", ToolEffect::Destroys),
            ("pay", ToolEffect::Destroys),
            ("look", ToolEffect::Reads),
            ("scribble", ToolEffect::Adds),
            ("drop", ToolEffect::Destroys),
            ("pay_in_steps", ToolEffect::Destroys),
            ("look_in_steps", ToolEffect::Reads),
        ] {
            let key = format!("tool/{name}@1.0.0").parse().unwrap();
            let Entity::Tool(tool) = find(&key).unwrap().entity() else { panic!("{name}") };
            assert_eq!(effect(tool, &find), expected, "{name}");
        }
    }
}
