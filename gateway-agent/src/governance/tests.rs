//! A gateway with a scoped catalog never allows a call that one with the complete catalog denies.

use std::{collections::BTreeSet, time::SystemTime};

use gateway_policy::CallerIdentity;
use policy::{CallContext, Purpose, ResourceKind};
use proptest::{prelude::*, sample::select};
use registry_core::{Kind, entity::policy::Mode, scope::Scope, scoped_catalog::ScopedCatalog};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::*;
use crate::{
    identity::{Identity, identify, settings::IdentityConfig},
    testing::{Registered, agent, agent_with, definitions, policy, server, tool},
    view::Views,
};

const CONFIG: IdentityConfig = IdentityConfig { trust_headers: true, scope_by_client_info: false };
const STATEMENTS: [&str; 10] = [
    "forbid (principal, action == Action::\"call\", resource) when { context.arguments has amount && context.arguments.amount > 1 };",
    "forbid (principal, action, resource);",
    "forbid (principal == Agent::\"clerk\", action, resource);",
    "forbid (principal in Tag::\"prod\", action, resource);",
    "forbid (principal, action, resource in Tag::\"blocked\");",
    "forbid (principal, action, resource) when { principal.known && principal.team != \"test\" };",
    "permit (principal, action, resource);",
    "permit (principal == Agent::\"ops/bot\", action, resource);",
    "permit (principal, action, resource) when { !principal.known };",
    "permit (principal, action, resource) when { principal in Team::\"test\" };",
];
/// The skill of `agent/planner`.
const SKILL: &str = "plan";
const CALLERS: [Option<&str>; 6] =
    [None, Some("clerk"), Some("ops/*"), Some("ops/bot"), Some("tag:prod"), Some("*")];
const RESOURCES: [Option<(&str, &str)>; 6] = [
    None,
    Some(("tools", "pay")),
    Some(("tools", "p*")),
    Some(("tools", "alias")),
    Some(("servers", "bank")),
    Some(("servers", "docs")),
];
const SCOPES: [&[&str]; 11] = [
    &["agent/clerk@1.0.0"],
    &["agent/clerk@2.0.0", "server/docs@*"],
    &["agent/clerk@*"],
    &["agent/ops/bot@*"],
    &["tool/pay@*"],
    &["server/bank@*", "agent/guest@*"],
    &["tool/alias@*", "tag:prod"],
    &["ops/*"],
    &["agent/planner@1.0.0", "tool/pay@1.0.0"],
    &["agent/planner@*", "tool/read@*"],
    &["tag:blocked", "agent/clerk@*"],
];

fn policies() -> impl Strategy<Value = Vec<Registered>> {
    let statements = proptest::collection::vec(select(&STATEMENTS[..]), 1..3);
    let parts = (statements, select(&CALLERS[..]), select(&RESOURCES[..]), any::<[bool; 4]>());
    let members =
        parts.prop_map(|(statements, caller, resource, [denies, audits, limits, destroys])| {
            let mut applies_to = Map::new();
            if let Some(caller) = caller {
                applies_to.insert("callers".to_owned(), json!([caller]));
            }
            if let Some((kind, name)) = resource {
                applies_to.insert(kind.to_owned(), json!([name]));
            }
            if destroys {
                applies_to.insert("destructive".to_owned(), json!(true));
            }
            let mut members = json!({
                "appliesTo": applies_to,
                "default": if denies { "deny" } else { "allow" },
                "mode": if audits { "audit" } else { "enforce" },
                "authorization": { "cedar": statements.join("\n") },
            });
            if limits {
                members["rates"] = json!([{ "limit": 1, "window": "PT1M" }]);
                members["maxStaleness"] = json!("PT1H");
            }
            members
        });
    let named = |(number, members)| policy(&format!("p{number}"), members);
    proptest::collection::vec(members, 0..4)
        .prop_map(move |all| all.into_iter().enumerate().map(named).collect())
}

fn entities() -> Vec<Registered> {
    let from = |server: &str, tool: &str| json!({ "source": { "server": server, "serverVersion": "1.0.0", "tool": tool } });
    let mut bot = agent("ops/bot", "1.0.0", &[("alias", "1.0.0"), ("read", "1.0.0")]);
    bot.document["metadata"] = json!({ "tags": ["prod"] });
    let mut newer = agent("clerk", "2.0.0", &[("pay", "1.0.0"), ("read", "1.0.0")]);
    newer.document["metadata"] = json!({ "tags": ["prod"] });
    let pay = from("bank", "pay");
    let amount = json!({ "type": "object", "properties": { "amount": { "type": "integer" } } });
    let version = |mut tool: Registered, hints: Value, tags: &[&str]| {
        tool.document["annotations"] = hints;
        tool.document["metadata"] = json!({ "tags": tags });
        tool
    };
    let reads = || json!({ "readOnlyHint": true });
    let destroys = || json!({ "readOnlyHint": false, "destructiveHint": true });
    let pay =
        |version| tool("pay", version, json!({ "source": pay["source"], "inputSchema": amount }));
    let read = |version| tool("read", version, from("docs", "read"));
    let planner = |version: &str, tags: &[&str]| {
        let skill = json!({ "id": SKILL, "name": "x", "description": "x", "tags": tags });
        agent_with("planner", json!({ "version": version, "skills": [skill] }))
    };
    vec![
        server("bank", &["pay"], &[]),
        server("docs", &["read"], &[]),
        version(pay("1.0.0"), reads(), &[]),
        version(pay("2.0.0"), destroys(), &[]),
        tool("alias", "1.0.0", json!({ "source": { "tool": "pay" } })),
        version(read("1.0.0"), reads(), &[]),
        version(read("2.0.0"), reads(), &["blocked"]),
        version(read("3.0.0"), destroys(), &[]).deprecated(),
        planner("1.0.0", &["prod"]),
        planner("2.0.0", &["blocked"]),
        agent("clerk", "1.0.0", &[("pay", "1.0.0")]),
        newer,
        agent("guest", "1.0.0", &[("read", "1.0.0")]),
        bot,
    ]
}

/// The decisions of one gateway about calls of a tool.
struct Decisions {
    denies: bool,
    hides: bool,
    rates: usize,
    is_stale: bool,
}

/// A tool, the skill of an agent, or a prompt or resource of a server.
#[derive(Debug, Clone, Copy)]
enum Subject<'a> {
    Tool(&'a Key),
    Skill(&'a Key),
    Feature(ResourceKind, &'a Key),
}

fn decisions(catalog: &Arc<Catalog>, claim: &CallerIdentity, subject: Subject<'_>) -> Decisions {
    let caller = identify(CONFIG, catalog, claim, None);
    if matches!(caller.identity(), Identity::Retired | Identity::UnknownVersion) {
        // Such callers are rejected before policies.
        return Decisions { denies: true, hides: true, rates: usize::MAX, is_stale: true };
    }
    let open = Decisions { denies: false, hides: false, rates: 0, is_stale: false };
    let Some(governance) = Governance::new(catalog, None, None) else { return open };
    let skill: Arc<str> = SKILL.into();
    let target = match subject {
        Subject::Tool(tool) => {
            let document = &catalog.find(tool).unwrap().document;
            Called::Tool(document, document.entity().as_tool().unwrap())
        }
        Subject::Skill(agent) => Called::Skill(&catalog.find(agent).unwrap().document, &skill),
        Subject::Feature(kind, server) => Called::Feature(kind, server, "x"),
    };
    let action = target.action();
    let Some(policies) = governance.applicable_policies(caller.agent(), target) else {
        return open;
    };
    let context = CallContext {
        issuer: "",
        subject: "",
        method: "headers",
        scopes: &BTreeSet::new(),
        purpose: Purpose::Call,
        hops: 0,
        time: SystemTime::UNIX_EPOCH,
    };
    Decisions {
        denies: policies.evaluate(action, &context, &Map::new()).denial.is_some(),
        hides: policies.hidden(action).is_some(),
        rates: policies.rates(Mode::Enforce).count(),
        is_stale: policies.stale(Mode::Enforce, None).is_some(),
    }
}

fn views(catalog: &Arc<Catalog>) -> Views {
    let targets = definitions(&["server/bank@*", "server/docs@*", "server/up@*"]);
    let (_, catalog) = watch::channel(Arc::clone(catalog));
    let (_, definitions) = watch::channel(targets);
    Views::new(catalog, definitions, Arc::default())
}

/// The version of a tool or agent that a caller reaches by its name alone.
fn reached(views: &Views, claim: &CallerIdentity, Key { kind, name, .. }: &Key) -> Option<Key> {
    let snapshot = views.now();
    let caller = identify(CONFIG, &snapshot.catalog, claim, None);
    let lookup = views.lookup(&snapshot);
    if *kind == Kind::Agent {
        return Some(lookup.addressed_agent(caller.agent(), name, None)?.key);
    }
    let declared = caller.agent().and_then(|agent| lookup.declared(agent, name.as_str()));
    Some(declared.or_else(|| lookup.newest(name))?.key().clone())
}

fn claims(complete: &Catalog) -> Vec<CallerIdentity> {
    let agents = complete.of_kind(Kind::Agent).flat_map(|(agent, _)| {
        let name = || agent.name.to_string().into();
        let version = Some(agent.version.to_string().into());
        [None, version].map(|version| CallerIdentity::Asserted { name: name(), version })
    });
    [CallerIdentity::Anonymous].into_iter().chain(agents).collect()
}

proptest! {
    #[test]
    fn name_in_scope_allows_no_more_than_in_complete_catalog(
        policies in policies(), roots in select(&SCOPES[..])
    ) {
        let all: Vec<_> = entities().into_iter().chain(policies).collect();
        let complete = crate::testing::catalog(1, all);
        let scope = Scope::from_roots(roots).unwrap();
        let scoped = Arc::new(ScopedCatalog::select(Arc::new(scope), &complete).catalog().clone());
        let (full_views, part_views) = (views(&complete), views(&scoped));
        let tools = scoped.of_kind(Kind::Tool);
        let planner = "agent/planner@1.0.0".parse().unwrap();
        for key in tools.map(|(key, _)| key).chain([&planner]) {
            for claim in claims(&complete) {
                let Some(part) = reached(&part_views, &claim, key) else { continue };
                let full = reached(&full_views, &claim, key);
                let full = full.expect("a complete catalog has the versions of a scope");
                let denies = |catalog: &Arc<Catalog>, key: &Key| {
                    let subject = match key.kind {
                        Kind::Agent => Subject::Skill(key),
                        _ => Subject::Tool(key),
                    };
                    decisions(catalog, &claim, subject).denies
                };
                let is_safe = denies(&scoped, &part) || !denies(&complete, &full);
                prop_assert!(is_safe, "{claim:?} reaches {part} in the scope, else {full}");
            }
        }
    }

    #[test]
    fn scoped_gateway_allows_no_more_than_complete_one(
        policies in policies(), roots in select(&SCOPES[..])
    ) {
        let all: Vec<_> = entities().into_iter().chain(policies).collect();
        let complete = crate::testing::catalog(1, all);
        let scope = Scope::from_roots(roots).unwrap();
        let scoped = ScopedCatalog::select(Arc::new(scope), &complete);
        let scoped = Arc::new(scoped.catalog().clone());
        let tools = scoped.of_kind(Kind::Tool).map(|(key, _)| Subject::Tool(key));
        let features = scoped.of_kind(Kind::Server).flat_map(|(key, _)| {
            [ResourceKind::Prompt, ResourceKind::Resource].map(|kind| Subject::Feature(kind, key))
        });
        for subject in tools.chain(features) {
            for claim in claims(&complete) {
                let full = decisions(&complete, &claim, subject);
                let part = decisions(&scoped, &claim, subject);
                prop_assert!(part.denies || !full.denies, "{claim:?} {subject:?}");
                prop_assert!(part.rates >= full.rates && (part.is_stale || !full.is_stale));
                // A list never shows what a call denies by name.
                prop_assert!(!part.hides || part.denies, "{claim:?} {subject:?}");
                if matches!(subject, Subject::Feature(..)) {
                    prop_assert_eq!(full.hides, full.denies, "{:?} {:?}", claim, subject);
                }
            }
        }
    }
}
