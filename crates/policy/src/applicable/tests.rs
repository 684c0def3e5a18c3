//! Properties: joint evaluation equals evaluation policy by policy, errors never allow, lists
//! and calls agree, and less knowledge about a caller never allows more.

use std::{collections::BTreeSet, time::SystemTime};

use proptest::{prelude::*, sample::select};
use registry_core::{Document, Kind};
use serde_json::{Value, json};

use super::*;
use crate::{
    AgentFacts, PoliciesInForce, Purpose, ResourceKind, cedar::StatementSet, in_force::Version,
};

/// Statements about callers, the tool, and an argument that may be absent or too precise.
const STATEMENTS: [&str; 8] = [
    "forbid (principal, action, resource);",
    "forbid (principal == Agent::\"a\", action, resource);",
    "forbid (principal, action, resource) when { principal.known && principal.team == \"red\" };",
    "forbid (principal, action == Action::\"call\", resource) when { context.arguments.n.lessThan(decimal(\"2.0\")) };",
    "permit (principal, action, resource);",
    "permit (principal in Tag::\"x\", action, resource);",
    "permit (principal, action, resource) when { resource.destructive };",
    "permit (principal, action, resource) when { context.hops < 2 };",
];

fn policies() -> impl Strategy<Value = Vec<Value>> {
    let statements = proptest::collection::vec(select(&STATEMENTS[..]), 0..3);
    let callers = select(vec![json!(null), json!(["a"]), json!(["*"]), json!(["tag:x"])]);
    let tools = select(vec![json!(null), json!(["t"]), json!(["u*"]), json!(["t", "u"])]);
    let policy = (statements, callers, tools, any::<bool>(), any::<bool>()).prop_map(
        |(statements, callers, tools, denies, audits)| {
            let mut applies_to = serde_json::Map::new();
            applies_to.extend([("callers".to_owned(), callers), ("tools".to_owned(), tools)]);
            applies_to.retain(|_, list| !list.is_null());
            json!({
                "version": "1.0.0", "appliesTo": applies_to,
                "default": if denies { "deny" } else { "allow" },
                "mode": if audits { "audit" } else { "enforce" },
                "authorization": { "cedar": statements.join("\n") },
            })
        },
    );
    proptest::collection::vec(policy, 0..4)
}

fn compiled(policies: &[Value]) -> PoliciesInForce {
    let documents: Vec<_> = policies
        .iter()
        .enumerate()
        .map(|(number, policy)| {
            let mut policy = policy.clone();
            policy["name"] = format!("p{number}").into();
            Arc::new(Document::parse(Kind::Policy, &policy).unwrap())
        })
        .collect();
    let versions = documents.iter().map(|document| Version {
        key: document.key(),
        document,
        is_retired: false,
    });
    PoliciesInForce::from_versions(versions, None)
}

fn callers() -> impl Strategy<Value = Caller> {
    let agent = |name: &str, team: &str, tags: &[&str]| {
        Caller::Agent(AgentFacts {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            team: team.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        })
    };
    select(vec![
        agent("a", "red", &[]),
        agent("b", "red", &["x"]),
        agent("c", "blue", &["x"]),
        Caller::Unregistered,
    ])
}

fn resources() -> impl Strategy<Value = Resource> {
    (select(vec!["t", "u", "v"]), any::<bool>()).prop_map(|(name, is_destructive)| Resource {
        kind: ResourceKind::Tool,
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        tools: vec![name.to_owned()],
        skills: Vec::new(),
        servers: vec!["s".to_owned()],
        tags: Vec::new(),
        is_destructive,
        is_read_only: false,
        is_open_world: false,
    })
}

fn features() -> impl Strategy<Value = Resource> {
    let kinds = vec![ResourceKind::Prompt, ResourceKind::Resource];
    (resources(), select(kinds)).prop_map(|(resource, kind)| Resource {
        kind,
        tools: Vec::new(),
        is_destructive: false,
        is_read_only: true,
        is_open_world: false,
        ..resource
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    select(vec![json!({}), json!({ "n": 1 }), json!({ "n": 3 }), json!({ "n": 0.000_001 })])
}

fn types() -> ArgumentType {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } },
        "required": ["n"] });
    ArgumentType::of_schema(Some(&schema), &|_| None)
}

fn verdict(
    policies: &[Value],
    (caller, resource): (&Caller, &Resource),
    arguments: &Value,
) -> Verdict {
    let Some(applicable) = compiled(policies).applicable(caller, resource, types) else {
        return Verdict::default();
    };
    applicable.evaluate(Action::Call, &context(&BTreeSet::new()), arguments.as_object().unwrap())
}

/// Whether a call violates an enforced policy, and the number of violated policies in audit mode.
/// Evaluates each statement of each policy alone, also those of policies that do not select the call.
fn evaluated_without_slices(
    policies: &[Value],
    (caller, resource): (&Caller, &Resource),
    arguments: &Value,
) -> (bool, usize) {
    let (entities, types, scopes) = (CallEntities::new(caller, resource), types(), BTreeSet::new());
    let (context, arguments) = (context(&scopes), arguments.as_object().unwrap());
    let request =
        Request { action: Action::Call, context: &context, arguments: Some((&types, arguments)) };
    let (mut is_denied, mut audited) = (false, 0);
    for policy in compiled(policies).iter() {
        let statements = policy.conditions().unwrap().as_ref().unwrap().statements();
        let evaluate = |statement| {
            let set = StatementSet::new([(0, statement)]).unwrap();
            set.evaluate(&entities, request).ok().filter(|found| found.errors.is_empty())
        };
        let found: Vec<_> = statements.iter().map(evaluate).collect();
        let is_permitted = found.iter().flatten().any(|found| !found.permits.is_empty());
        let is_violated = found.iter().any(Option::is_none)
            || found.iter().flatten().any(|found| !found.forbids.is_empty())
            || policy.denies_by_default() && !is_permitted;
        let selector = &policy.policy().applies_to;
        let is_selected =
            resource.is_selected(selector) && caller.matches(selector) != CallerMatch::No;
        match policy.mode() {
            Mode::Enforce => is_denied |= is_selected && is_violated,
            Mode::Audit => audited += usize::from(is_selected && is_violated),
        }
    }
    (is_denied, audited)
}

fn context(scopes: &BTreeSet<String>) -> CallContext<'_> {
    CallContext {
        issuer: "",
        subject: "",
        method: "none",
        scopes,
        purpose: Purpose::Call,
        hops: 1,
        time: SystemTime::UNIX_EPOCH,
    }
}

fn denied(policies: &[Value], of: (&Caller, &Resource), arguments: &Value) -> bool {
    verdict(policies, of, arguments).denial.is_some()
}

#[test]
fn unusable_argument_is_attributed_in_each_mode() {
    let policy = |mode: &str| json!({ "version": "1.0.0", "mode": mode, "authorization": { "cedar": STATEMENTS[3] } });
    let resource = Resource {
        kind: ResourceKind::Tool,
        name: "t".to_owned(),
        version: "1.0.0".to_owned(),
        tools: vec!["t".to_owned()],
        skills: Vec::new(),
        servers: Vec::new(),
        tags: Vec::new(),
        is_destructive: false,
        is_read_only: false,
        is_open_world: false,
    };
    let policies = [policy("audit"), policy("enforce"), policy("audit")];
    let verdict =
        verdict(&policies, (&Caller::Unregistered, &resource), &json!({ "n": 0.000_001 }));
    let name = |finding: &Finding| finding.policy.name.to_string();
    assert_eq!(verdict.denial.as_ref().map(name).as_deref(), Some("p1"));
    assert_eq!(verdict.audit.iter().map(name).collect::<Vec<_>>(), ["p0", "p2"]);
}

#[test]
fn unusable_argument_is_attributed_to_its_reader() {
    let policy = |condition: &str| {
        let cedar = format!(
            "forbid (principal, action == Action::\"call\", resource) when {{ {condition} }};"
        );
        json!({ "version": "1.0.0", "authorization": { "cedar": cedar } })
    };
    let policies = [
        policy("context.arguments.n.lessThan(decimal(\"0.0\"))"),
        policy("![context.arguments].contains(context.arguments)"),
    ];
    let resource = Resource {
        kind: ResourceKind::Tool,
        name: "t".to_owned(),
        version: "1.0.0".to_owned(),
        tools: vec!["t".to_owned()],
        skills: Vec::new(),
        servers: Vec::new(),
        tags: Vec::new(),
        is_destructive: false,
        is_read_only: false,
        is_open_world: false,
    };
    let of = (&Caller::Unregistered, &resource);
    assert_eq!(verdict(&policies, of, &json!({ "n": 1 })).denial, None);
    let denial = verdict(&policies, of, &json!({ "n": 1, "undeclared": 2 })).denial.unwrap();
    assert_eq!(denial.policy.name.as_str(), "p1");
}

proptest! {
    #[test]
    fn joint_evaluation_equals_policies_one_by_one(
        policies in policies(), caller in callers(), resource in resources(), arguments in arguments()
    ) {
        let of = (&caller, &resource);
        let alone = policies.iter().map(|policy| {
            verdict(std::slice::from_ref(policy), of, &arguments)
        });
        let (denials, audits): (Vec<_>, Vec<_>) =
            alone.map(|verdict| (verdict.denial.is_some(), verdict.audit.len())).unzip();
        let together = verdict(&policies, of, &arguments);
        prop_assert_eq!(together.denial.is_some(), denials.contains(&true));
        prop_assert_eq!(together.audit.len(), audits.iter().sum::<usize>());
    }

    #[test]
    fn sliced_evaluation_equals_evaluating_everything(
        policies in policies(), caller in callers(), resource in resources(), arguments in arguments()
    ) {
        let of = (&caller, &resource);
        let sliced = verdict(&policies, of, &arguments);
        let (is_denied, audited) = evaluated_without_slices(&policies, of, &arguments);
        prop_assert_eq!(sliced.denial.is_some(), is_denied);
        prop_assert_eq!(sliced.audit.len(), audited);
    }

    #[test]
    fn hidden_tool_is_denied_to_every_call(
        policies in policies(), caller in callers(), resource in resources(), arguments in arguments()
    ) {
        let applicable = compiled(&policies).applicable(&caller, &resource, types);
        if applicable.is_some_and(|applicable| applicable.hidden(Action::Call).is_some()) {
            prop_assert!(denied(&policies, (&caller, &resource), &arguments));
        }
    }

    #[test]
    fn feature_is_denied_exactly_if_hidden(
        policies in policies(), caller in callers(), resource in features()
    ) {
        let unreadable = || ArgumentType::of_schema(None, &|_| None);
        let applicable = compiled(&policies).applicable(&caller, &resource, unreadable);
        let Some(applicable) = applicable else { return Ok(()) };
        for action in resource.kind.actions() {
            let verdict = applicable.evaluate(*action, &context(&BTreeSet::new()), &Map::new());
            prop_assert_eq!(verdict.denial.is_some(), applicable.hidden(*action).is_some());
        }
    }

    #[test]
    fn partial_decision_holds_for_every_call(
        policies in policies(), caller in callers(), resource in resources(), arguments in arguments(),
        knows_hops in any::<bool>(),
    ) {
        let Some(applicable) = compiled(&policies).applicable(&caller, &resource, types) else { return Ok(()) };
        let known: &[&[&str]] = if knows_hops { &[&["hops"]] } else { &[] };
        let decision = applicable.decide_partially(Action::Call, &context(&BTreeSet::new()), known);
        let is_denied = denied(&policies, (&caller, &resource), &arguments);
        match decision {
            PartialDecision::Denied(_) => prop_assert!(is_denied),
            PartialDecision::Allowed => prop_assert!(!is_denied),
            PartialDecision::Undecided(policies) => prop_assert!(!policies.is_empty()),
        }
    }

    #[test]
    fn explanation_agrees_with_verdict(
        policies in policies(), caller in callers(), resource in resources(), arguments in arguments()
    ) {
        let explanation = crate::explain(
            &compiled(&policies),
            &caller,
            &resource,
            Action::Call,
            &context(&BTreeSet::new()),
            &types(),
            arguments.as_object().unwrap(),
        );
        let expected = verdict(&policies, (&caller, &resource), &arguments);
        let violations = |mode| {
            let parts = explanation.policies.iter().filter(move |part| part.policy.mode() == mode);
            parts.filter(|part| part.violation.is_some()).count()
        };
        prop_assert_eq!(violations(Mode::Enforce) > 0, expected.denial.is_some());
        prop_assert_eq!(violations(Mode::Audit), expected.audit.len());
        prop_assert_eq!(&explanation.verdict, &expected);
    }

    #[test]
    fn unknown_caller_gets_no_more_than_any_agent(
        policies in policies(), caller in callers(), resource in resources(), arguments in arguments()
    ) {
        if denied(&policies, (&caller, &resource), &arguments) {
            prop_assert!(denied(&policies, (&Caller::Unknown, &resource), &arguments));
        }
    }

    #[test]
    fn mismatched_policy_never_allows(caller in callers(), resource in resources()) {
        // Cedar compares values of different types as unequal, without an error.
        let cedar = "forbid (principal, action == Action::\"call\", resource) \
                     when { context.arguments.n == \"all\" };";
        let policy = json!({ "version": "1.0.0", "authorization": { "cedar": cedar } });
        let verdict = verdict(&[policy], (&caller, &resource), &json!({ "n": 1 }));
        let reason = verdict.denial.map(|finding| finding.reason);
        prop_assert!(matches!(reason, Some(Reason::PolicyError(_))));
    }

    #[test]
    fn failing_condition_never_allows(caller in callers(), resource in resources()) {
        let cedar = STATEMENTS[3];
        let policy = json!({ "version": "1.0.0", "authorization": { "cedar": cedar } });
        for arguments in [json!({}), json!({ "n": 0.000_001 }), json!({ "n": "1" })] {
            let verdict = verdict(std::slice::from_ref(&policy), (&caller, &resource), &arguments);
            let reason = verdict.denial.map(|finding| finding.reason);
            prop_assert!(matches!(reason, Some(Reason::PolicyError(_))));
        }
    }
}
