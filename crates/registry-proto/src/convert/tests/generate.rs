//! Strategies for valid documents and records.
//!
//! Boxed, because a debug build would otherwise need more stack than a test thread has.

use std::{sync::Arc, time::Duration};

use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::{select, subsequence},
};
use registry_core::{
    Amount, Document, Kind, Lifecycle, LifecycleState, Notice, Record, Revision, Timestamp,
    duration::format_iso_duration,
};
use serde_json::{Map, Value, json};

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_.-]{0,11}[A-Za-z0-9_-]"
}

fn version() -> impl Strategy<Value = String> {
    (0..30_u8, 0..30_u8, 0..30_u8, option::of("[a-z][a-z0-9]{0,4}")).prop_map(|(a, b, c, pre)| {
        pre.map_or_else(|| format!("{a}.{b}.{c}"), |pre| format!("{a}.{b}.{c}-{pre}"))
    })
}

/// Any JSON that documents may hold.
fn open() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        any::<f64>().prop_filter_map("a number", |n| {
            // Documents do not accept numbers of this size.
            let n = if n.abs() > 9e15 { n.recip() } else { n };
            n.is_finite().then(|| Value::from(n))
        }),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((any::<String>(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().collect::<Map<String, Value>>())
            }),
        ]
    })
    .boxed()
}

fn open_object() -> BoxedStrategy<Value> {
    vec((any::<String>(), open()), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
        .boxed()
}

fn json_schema() -> BoxedStrategy<Value> {
    prop_oneof![any::<bool>().prop_map(Value::from), open_object()].boxed()
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(any::<String>(), 0..4)
}

fn dependency() -> BoxedStrategy<Value> {
    (name(), version(), option::of(any::<String>()))
        .prop_map(|(name, version, skill)| {
            let target = if skill.is_some() { "agent" } else { "tool" };
            json!({ "type": target, "name": name, "version": version, "skill": skill })
        })
        .boxed()
}

fn schema() -> BoxedStrategy<Value> {
    (option::of(any::<String>()), json_schema(), option::of(open_object())).prop_map(
        |(description, schema, metadata)| {
            json!({ "description": description, "schema": schema, "metadata": metadata })
        },
    ).boxed()
}

fn server() -> BoxedStrategy<Value> {
    let provision =
        (name(), version()).prop_map(|(tool, version)| json!({ "tool": tool, "version": version }));
    (option::of(any::<String>()), vec(provision, 0..5), option::of(open_object())).prop_map(
        |(description, provides, metadata)| {
            json!({ "description": description, "provides": provides, "metadata": metadata })
        },
    ).boxed()
}

fn tool() -> BoxedStrategy<Value> {
    let source = (name(), version(), name(), option::of(open_object()), texts()).prop_map(
        |(server, version, tool, defaults, hidden)| {
            json!({ "source": {
                "server": server, "serverVersion": version, "tool": tool,
                "defaults": defaults, "hideFields": hidden,
            } })
        },
    );
    let spec = open_object().prop_map(|spec| json!({ "spec": spec }));
    let schemas = (option::of(json_schema()), option::of(json_schema()));
    let objects = (option::of(open_object()), option::of(open_object()), option::of(open_object()));
    let support = prop_oneof![Just("forbidden"), Just("optional"), Just("required")];
    let execution = support.prop_map(|support| json!({ "taskSupport": support, "later": 1 }));
    let served = (option::of(execution), option::of(open_object()));
    (prop_oneof![source, spec], vec(dependency(), 0..4), schemas, objects, served)
        .prop_map(|(mut tool, depends, (input, output), objects, (execution, meta))| {
            let (transform, annotations, metadata) = objects;
            tool["depends"] = depends.into();
            tool["inputSchema"] = input.into();
            tool["outputSchema"] = output.into();
            tool["outputTransform"] = transform.into();
            tool["annotations"] = annotations.into();
            tool["metadata"] = metadata.into();
            tool["execution"] = execution.into();
            tool["_meta"] = meta.into();
            tool
        })
        .boxed()
}

fn skills() -> BoxedStrategy<Vec<Value>> {
    let schemas = (option::of(json_schema()), option::of(json_schema()));
    let skill = (any::<String>(), texts(), texts(), texts(), schemas);
    vec(skill, 0..4)
        .prop_map(|skills| {
            let skill = |(i, (text, tags, examples, modes, (input, output)))| {
                json!({
                    "id": format!("skill-{i}"), "name": text, "description": text, "tags": tags,
                    "examples": examples, "inputModes": modes, "outputModes": modes,
                    "inputSchema": input, "outputSchema": output,
                })
            };
            skills.into_iter().enumerate().map(skill).collect()
        })
        .boxed()
}

fn capabilities() -> BoxedStrategy<Value> {
    let sbom = vec(dependency(), 0..4).prop_map(
        |depends| json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } }),
    );
    let other = ("urn:[a-z]{1,8}", option::of(any::<bool>()), option::of(open_object())).prop_map(
        |(uri, required, params)| json!({ "uri": uri, "required": required, "params": params }),
    );
    (option::of(any::<bool>()), option::of(sbom), vec(other, 0..3))
        .prop_map(|(flag, sbom, mut extensions)| {
            extensions.extend(sbom);
            json!({ "streaming": flag, "stateTransitionHistory": flag, "extensions": extensions })
        })
        .boxed()
}

fn agent() -> BoxedStrategy<Value> {
    let security = (vec(open(), 0..3), option::of(open_object()));
    (any::<String>(), texts(), skills(), capabilities(), security)
        .prop_map(|(text, modes, skills, capabilities, (security, schemes))| {
            json!({
                "description": text, "url": text, "protocolVersion": "1.0",
                "defaultInputModes": modes, "defaultOutputModes": modes, "skills": skills,
                "capabilities": capabilities, "provider": { "organization": text },
                "security": security, "securitySchemes": schemes,
            })
        })
        .boxed()
}

/// An amount that is not negative.
fn amount() -> impl Strategy<Value = String> {
    (0..=i64::MAX).prop_map(|micros| Amount::from_micros(micros).to_string())
}

/// An ISO 8601 duration.
fn window() -> impl Strategy<Value = String> {
    (1..86_400_000_u64).prop_map(|n| format_iso_duration(Duration::from_secs(n)))
}

fn price() -> BoxedStrategy<Value> {
    let per_call = || vec![None, Some("0"), Some("0.000001"), Some("0.015")];
    let failures = || option::of(select(vec!["charged", "free"]));
    let per_round = || select(per_call());
    let fixed = (amount(), failures()).prop_map(|(per_call, failures)| {
        json!({ "perCall": per_call, "failures": failures, "perRound": "0" })
    });
    let paths = select(vec!["_meta.cost", "/_meta/a.b~1c"]);
    let reported = (select(per_call()), paths, amount(), failures(), per_round()).prop_filter_map(
        "an amount above the maximum",
        |(per_call, path, maximum, failures, per_round)| {
            let parse = |text: &str| Amount::parse(text).unwrap();
            let is_low = |text: &str| parse(text) <= parse(&maximum);
            let is_valid = [per_call, per_round].into_iter().flatten().all(is_low);
            is_valid.then(|| {
                json!({
                    "perCall": per_call, "reportedBy": path, "maximum": maximum,
                    "failures": failures, "perRound": per_round,
                })
            })
        },
    );
    prop_oneof![fixed, reported].boxed()
}

/// Budgets with different names.
fn budgets() -> BoxedStrategy<Value> {
    let zones = option::of(select(vec!["UTC", "Europe/Berlin", "Asia/Kolkata"]));
    let calendar = (select(vec!["day", "week", "month", "year"]), zones)
        .prop_map(|(window, zone)| json!({ "window": window, "timeZone": zone }));
    let anchor = option::of(
        (0..=i64::from(u32::MAX))
            .prop_map(|seconds| Timestamp::from_millis(seconds * 1_000).to_string()),
    );
    let fixed = (window(), anchor)
        .prop_map(|(window, anchor)| json!({ "window": window, "anchor": anchor }));
    let total = Just(json!({ "window": "total" }));
    let windows = prop_oneof![total, calendar, fixed];
    let scopes = select(vec!["agent", "team", "principal", "tool", "fleet"]);
    let unpriced = option::of(select(vec!["allow", "deny"]));
    let allow = amount().prop_map(|amount| json!({ "allow": amount }));
    let unavailable = prop_oneof![Just(Value::Null), Just(json!("deny")), allow];
    let alerts = subsequence(vec![0.0001, 0.5, 0.8, 1.0, 1.5, 1000.0], 0..6);
    let budget = (windows, scopes, amount(), unpriced, unavailable, alerts).prop_map(
        |(mut budget, per, limit, unpriced, unavailable, alerts)| {
            budget["per"] = per.into();
            budget["limit"] = limit.into();
            budget["unpriced"] = unpriced.into();
            budget["onUnavailable"] = unavailable;
            budget["alertAt"] = alerts.into();
            budget
        },
    );
    vec(budget, 0..3)
        .prop_map(|mut budgets| {
            for (i, budget) in budgets.iter_mut().enumerate() {
                budget["name"] = format!("b{i}").into();
            }
            budgets.into()
        })
        .boxed()
}

/// An inspection with at least one action.
fn inspection() -> BoxedStrategy<Value> {
    let classes = || select(vec!["credential", "financial", "governmentId", "contact", "network"]);
    let actions = |actions: Vec<&'static str>| btree_map(classes(), select(actions), 1..4);
    let arguments = option::of(actions(vec!["log", "block"]));
    let results = actions(vec!["log", "tokenize", "redact", "block"]);
    let listed = (arguments, results)
        .prop_map(|(arguments, results)| json!({ "arguments": arguments, "results": results }));
    let strict = Just(json!({ "profile": "strict" }));
    let exception = ("[a-z*]{1,6}", "(/[a-z]{0,3}(~0|~1)?){1,3}")
        .prop_map(|(tool, pointer)| json!({ "tool": tool, "pointer": pointer }));
    let rest = (
        option::of(vec(exception, 0..3)),
        option::of(vec("[a-z*]{1,6}", 0..3)),
        option::of(select(vec!["allow", "block"])),
    );
    (prop_oneof![listed, strict], rest)
        .prop_map(|(mut inspection, (except, restore_for, binary))| {
            inspection["except"] = json!(except);
            inspection["restoreFor"] = json!(restore_for);
            inspection["binary"] = json!(binary);
            inspection
        })
        .boxed()
}

fn policy() -> BoxedStrategy<Value> {
    let patterns = || option::of(vec("[a-z*]{1,6}", 1..3));
    let callers = option::of(vec("(tag:)?[a-z*]{1,6}", 1..3));
    let applies_to = (callers, patterns(), patterns(), patterns(), option::of(any::<bool>()))
        .prop_map(|(callers, tools, skills, servers, destructive)| {
            json!({
                "callers": callers, "tools": tools, "skills": skills, "servers": servers,
                "destructive": destructive,
            })
        });
    let count = || option::of(0..1000_u32);
    let keys = subsequence(vec!["agent", "caller", "principal", "tool"], 0..4);
    let reach = option::of(select(vec!["gateway", "fleet"]));
    let rate = (keys, 0..1000_u32, window(), count(), reach).prop_map(
        |(per, limit, window, burst, reach)| {
            json!({ "per": per, "limit": limit, "window": window, "burst": burst, "reach": reach })
        },
    );
    let trace = (count(), count(), option::of(amount()))
        .prop_map(|(calls, hops, cost)| json!({ "calls": calls, "hops": hops, "cost": cost }));
    let limits = option::of(option::of(trace).prop_map(|trace| json!({ "trace": trace })));
    let modes =
        (option::of(select(vec!["enforce", "audit"])), option::of(select(vec!["allow", "deny"])));
    let cedar = option::of(any::<String>().prop_map(|cedar| json!({ "cedar": cedar })));
    let rest = (option::of(window()), option::of(open_object()));
    let spending = (option::of(price()), budgets(), option::of(inspection()));
    (option::of(applies_to), modes, cedar, vec(rate, 0..3), limits, spending, rest)
        .prop_map(|(applies_to, (mode, default), cedar, rates, limits, spending, rest)| {
            let ((price, budgets, inspection), (staleness, metadata)) = (spending, rest);
            json!({
                "appliesTo": applies_to, "mode": mode, "default": default, "authorization": cedar,
                "price": price, "budgets": budgets, "rates": rates, "limits": limits,
                "inspection": inspection,
                "maxStaleness": staleness, "metadata": metadata,
            })
        })
        .boxed()
}

/// A valid document of any kind.
pub(super) fn document() -> BoxedStrategy<Document> {
    let body = prop_oneof![
        schema().prop_map(|body| (Kind::Schema, body)),
        server().prop_map(|body| (Kind::Server, body)),
        tool().prop_map(|body| (Kind::Tool, body)),
        agent().prop_map(|body| (Kind::Agent, body)),
        policy().prop_map(|body| (Kind::Policy, body)),
    ];
    (body, name(), version())
        .prop_map(|((kind, mut body), name, version)| {
            body["name"] = name.into();
            body["version"] = version.into();
            Document::parse(kind, &body).unwrap()
        })
        .boxed()
}

/// A record in any state of its life.
pub(super) fn record() -> BoxedStrategy<Record> {
    let state = prop_oneof![
        Just(LifecycleState::Active),
        Just(LifecycleState::Deprecated),
        Just(LifecycleState::Retired),
    ];
    (document(), any::<(String, u64, u64, u32)>(), state, option::of(any::<String>()))
        .prop_map(|(document, (owner, registered, revision, seconds), state, message)| Record {
            document: Arc::new(as_stored(&document)),
            owner: owner.into(),
            registered: Revision(registered),
            registered_at: Timestamp::from_millis(i64::from(seconds) * 1000 + 17),
            lifecycle: Lifecycle::new(
                state,
                notice(message),
                (Revision(revision), Timestamp::from_millis(i64::from(seconds))),
            ),
        })
        .boxed()
}

/// A notice that says everything, or nothing.
fn notice(message: Option<String>) -> Notice {
    match message {
        Some(message) => Notice {
            force_reason: Some(message.clone()),
            message: Some(message),
            replacement: Some("agent/acme/b@1.2.3".parse().unwrap()),
            sunset_date: Some("2026-12-31".parse().unwrap()),
        },
        None => Notice::default(),
    }
}

/// The document after a round trip through its canonical bytes, which write 1.0 as 1.
fn as_stored(document: &Document) -> Document {
    let kind = document.key().kind;
    Document::verify(kind, document.bytes().clone(), document.digest()).unwrap()
}
