//! Comparison of the card of a live agent with its registration. Skills are compared like tools.
//!
//! Texts of the agent itself, addresses, and schemas that only the registration has are not compared.

use std::collections::BTreeSet;

use schema_compat::compatibility::Budget;
use serde_json::{Value, json};

use super::{Class, Comparison, LiveDifference, NotRegistered};
use crate::{
    catalog::Catalog,
    entity::{Agent, CARD_PROVENANCE, Entity, Skill},
    reference::Key,
    schema_inline,
};

/// A live agent, read as an import reads its card.
#[derive(Debug, Clone)]
pub struct LiveAgent {
    /// The agent.
    pub agent: Agent,
    /// Whether its card has signatures, which the import drops.
    pub is_signed: bool,
}

/// Compares a live agent with its registration; the most severe differences come first.
pub fn compare_agent(
    catalog: &Catalog,
    key: &Key,
    live: &LiveAgent,
) -> Result<Vec<LiveDifference>, NotRegistered> {
    let record = catalog.find(key).ok_or_else(|| NotRegistered(key.clone()))?;
    let Entity::Agent(registered) = record.document.entity() else {
        return Err(NotRegistered(key.clone()));
    };
    let (budget, forms) = (Budget::for_batch(), schema_inline::InlineBudget::for_server());
    let mut comparison = Comparison { catalog, server: key, budget, forms, found: Vec::new() };
    comparison.agent(registered, &live.agent);
    let was_verified =
        registered.metadata.as_ref().is_some_and(|members| members.contains_key(CARD_PROVENANCE));
    if was_verified && !live.is_signed {
        let what = "the registered card was signed, the live card is not";
        comparison.add(Class::Suspicious, "", "/signatures", what);
    }
    let mut found = comparison.found;
    found.sort_by(|a, b| b.class.cmp(&a.class).then_with(|| a.tool.cmp(&b.tool)));
    Ok(found)
}

impl Comparison<'_> {
    fn agent(&mut self, registered: &Agent, live: &Agent) {
        if live.version != registered.version {
            let what = format!("the card has the version {}", live.version);
            self.add(Class::Cosmetic, "", "/version", what);
        }
        self.interfaces(registered, live);
        let flags = |agent: &Agent| {
            let found = &agent.capabilities;
            [
                ("streaming", found.streaming == Some(true)),
                ("pushNotifications", found.push_notifications == Some(true)),
            ]
        };
        for ((name, before), (_, after)) in flags(registered).into_iter().zip(flags(live)) {
            let at = format!("/capabilities/{name}");
            match (before, after) {
                (true, false) => self.add(Class::Breaking, "", &at, "the capability was withdrawn"),
                (false, true) => self.add(Class::Compatible, "", &at, "the capability is new"),
                _ => {}
            }
        }
        for skill in &registered.skills {
            match live.skill(&skill.id) {
                Some(now) => self.skill((registered, skill), (live, now)),
                None => self.add(Class::Breaking, &skill.id, "", "the agent lacks this skill"),
            }
        }
        for skill in &live.skills {
            if registered.skill(&skill.id).is_none() {
                self.add(Class::Compatible, &skill.id, "", "the skill is not registered");
            }
        }
    }

    fn interfaces(&mut self, registered: &Agent, live: &Agent) {
        let (before, after) = (interfaces(registered), interfaces(live));
        for [binding, version] in before.difference(&after) {
            let what = format!("the interface {binding} {version} was removed");
            self.add(Class::Undecided, "", "/supportedInterfaces", what);
        }
        for [binding, version] in after.difference(&before) {
            let what = format!("the interface {binding} {version} is not registered");
            self.add(Class::Compatible, "", "/supportedInterfaces", what);
        }
    }

    fn skill(&mut self, (of, registered): (&Agent, &Skill), (live_of, live): (&Agent, &Skill)) {
        let mut tool = json!({
            "name": live.id, "title": live.name, "description": live.description,
        });
        for (name, schema) in
            [("inputSchema", &live.input_schema), ("outputSchema", &live.output_schema)]
        {
            if let Some(schema) = schema {
                tool[name] = schema.clone();
            }
        }
        let mut expected = registered.as_tool(of);
        // Most cards have no schemas; those of the registry are checked at each message.
        expected.input_schema = live.input_schema.as_ref().and(registered.input_schema.clone());
        expected.output_schema = live.output_schema.as_ref().and(registered.output_schema.clone());
        self.tool(&expected, &tool);
        for (name, own, default, live_own, live_default) in [
            (
                "inputModes",
                &registered.input_modes,
                &of.default_input_modes,
                &live.input_modes,
                &live_of.default_input_modes,
            ),
            (
                "outputModes",
                &registered.output_modes,
                &of.default_output_modes,
                &live.output_modes,
                &live_of.default_output_modes,
            ),
        ] {
            let (before, after) = (modes(own, default), modes(live_own, live_default));
            let at = format!("/{name}");
            for mode in before.difference(&after) {
                let what = format!("the media type {mode} was removed");
                self.add(Class::Breaking, &registered.id, &at, what);
            }
            for mode in after.difference(&before) {
                let what = format!("the media type {mode} is new");
                self.add(Class::Compatible, &registered.id, &at, what);
            }
        }
    }
}

fn modes<'a>(own: &'a [String], default: &'a [String]) -> BTreeSet<&'a str> {
    let modes = if own.is_empty() { default } else { own };
    modes.iter().map(String::as_str).collect()
}

/// The bindings with their versions, in upper case and as `Major.Minor`. An import keeps several
/// interfaces in `metadata.card`.
fn interfaces(agent: &Agent) -> BTreeSet<[String; 2]> {
    let minor = |version: &str| version.split('.').take(2).collect::<Vec<_>>().join(".");
    let own = minor(&agent.protocol_version);
    let card = agent.metadata.as_ref().and_then(|metadata| metadata.get("card"));
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let listed = |name: &str| card.and_then(|card| card.get(name)?.as_array());
    if let Some(all) = listed("supportedInterfaces") {
        let one = |interface: &Value| {
            let version = text(interface, "protocolVersion").unwrap_or_else(|| "0.3".to_owned());
            let binding = text(interface, "protocolBinding").unwrap_or_default();
            [binding.to_ascii_uppercase(), minor(&version)]
        };
        return all.iter().map(one).collect();
    }
    let preferred = card.and_then(|card| text(card, "preferredTransport"));
    let additional = listed("additionalInterfaces").into_iter().flatten();
    let additional = additional.filter_map(|interface| text(interface, "transport"));
    let bindings = std::iter::once(preferred.unwrap_or_else(|| "JSONRPC".to_owned()));
    let bindings = bindings.chain(additional).map(|binding| binding.to_ascii_uppercase());
    bindings.map(|binding| [binding, own.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document::Document, kind::Kind};

    fn card() -> Value {
        json!({
            "name": "writer", "version": "1.0.0", "description": "Writes.",
            "url": "https://writer.example", "protocolVersion": "1.0",
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "capabilities": { "streaming": true },
            "skills": [{ "id": "write", "name": "Write", "description": "Writes texts.",
                "tags": ["text"], "inputSchema": { "type": "object" } }],
        })
    }

    fn agent(card: &Value) -> Agent {
        match Document::parse(Kind::Agent, card).unwrap().entity() {
            Entity::Agent(agent) => (**agent).clone(),
            other => panic!("{other:?}"),
        }
    }

    fn found(live: &Value) -> Vec<(Class, String, String)> {
        let catalog = Catalog::empty(crate::chain::RegistryId::new("test"));
        let key = "agent/writer@1.0.0".parse().unwrap();
        let (budget, forms) = (Budget::for_batch(), schema_inline::InlineBudget::for_server());
        let mut comparison =
            Comparison { catalog: &catalog, server: &key, budget, forms, found: Vec::new() };
        comparison.agent(&agent(&card()), &agent(live));
        let found = comparison.found.into_iter();
        found.map(|one| (one.class, one.tool, one.pointer)).collect()
    }

    type Change<'a> = &'a dyn Fn(&mut Value);
    /// The class, skill and pointer of each difference.
    type Found = Vec<(Class, String, String)>;

    #[test]
    fn differences_of_cards_have_classes() {
        assert!(found(&card()).is_empty());
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut live = card();
            change(&mut live);
            found(&live)
        };
        let one = |class: Class, skill: &str, pointer: &str| {
            vec![(class, skill.to_owned(), pointer.to_owned())]
        };
        let without_schema = |live: &mut Value| {
            live["skills"][0].as_object_mut().unwrap().remove("inputSchema");
        };
        assert!(changed(&without_schema).is_empty(), "most cards have no schemas");
        let cases: [(Change<'_>, Found); 5] = [
            (&|live| live["version"] = json!("1.1.0"), one(Class::Cosmetic, "", "/version")),
            (
                &|live| live["capabilities"]["streaming"] = json!(false),
                one(Class::Breaking, "", "/capabilities/streaming"),
            ),
            (
                &|live| live["skills"][0]["description"] = json!("Writes long texts."),
                one(Class::Cosmetic, "write", "/description"),
            ),
            (
                &|live| live["defaultInputModes"] = json!(["text/plain", "text/html"]),
                one(Class::Compatible, "write", "/inputModes"),
            ),
            (
                &|live| live["skills"][0]["outputModes"] = json!(["image/png", "text/plain"]),
                one(Class::Compatible, "write", "/outputModes"),
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(changed(change), expected);
        }
        let other = changed(&|live| live["skills"][0]["id"] = json!("draw"));
        let skills = [(Class::Breaking, "write"), (Class::Compatible, "draw")];
        let expected = skills.map(|(class, skill)| (class, skill.to_owned(), String::new()));
        assert_eq!(other, expected);
        let older = changed(&|live| live["protocolVersion"] = json!("0.3.0"));
        let classes: Vec<_> = older.into_iter().map(|(class, ..)| class).collect();
        assert_eq!(classes, [Class::Undecided, Class::Compatible]);
    }
}
