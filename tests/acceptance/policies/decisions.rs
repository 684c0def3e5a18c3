//! Commands that decide calls without making them.

use std::fs;

use acceptance::{CtlOutput, ModernClient, Registry, ctl};
use serde_json::{Value, json};

use super::{agent, applied, bank, bank_gateway, limit};

/// No registry listens here.
const NOWHERE: &str = "http://127.0.0.1:1";

const CHARGE: &str = "// Large charges\nforbid (principal, action == Action::\"call\", resource)
    when { context.arguments has amount && context.arguments.amount > 10 };";

/// Two agents, a policy about amounts, and one that permits the clerk only.
fn governed() -> Value {
    let mut file = bank();
    let charges =
        json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": CHARGE } });
    let clerks = json!({
        "name": "clerks", "version": "1.0.0", "appliesTo": { "tools": ["balance"] },
        "default": "deny",
        "authorization": { "cedar": "permit (principal == Agent::\"clerk\", action, resource);" },
    });
    file["policies"] = json!([limit("1.0.0", &charges)["policies"][0], clerks]);
    file["agents"] = json!([
        agent("clerk", &[("charge", "1.0.0"), ("balance", "1.0.0")]),
        agent("guest", &[("balance", "1.0.0"), ("pay", "1.0.0")]),
    ]);
    file
}

/// Runs a command against files instead of a registry.
struct Offline {
    dir: tempfile::TempDir,
}

impl Offline {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("registry.json"), governed().to_string()).expect("written");
        Self { dir }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn run(&self, arguments: &[&str]) -> CtlOutput {
        let file = self.dir.path().join("registry.json");
        let more = ["--file", file.to_str().expect("UTF-8"), "--output", "json"];
        ctl(NOWHERE, &[arguments, &more].concat())
    }

    fn cases(&self, text: &str) -> CtlOutput {
        let path = self.write("cases.yaml", text);
        self.run(&["policy", "test", &path])
    }
}

/// The parts of policies in a decision: name, selection, results of statements.
fn parts(explanation: &Value) -> Vec<(String, String, Vec<String>)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let part = |part: &Value| {
        let statements = part["statements"].as_array().expect("a list").iter();
        let statement = |one: &Value| format!("{} {}", one["line"], text(&one["result"]));
        (text(&part["policy"]), text(&part["selection"]), statements.map(statement).collect())
    };
    explanation["policies"].as_array().expect("a list").iter().map(part).collect()
}

#[test]
fn explain_shows_the_part_of_each_policy() {
    let registry = Registry::start();
    applied(&registry, &governed());
    let explain = |more: &[&str]| registry.json(&[&["policy", "explain"], more].concat());
    let denied = explain(&["charge", r#"{"amount": 11}"#, "--caller", "clerk"]);
    assert_eq!(
        [&denied["decision"], &denied["reason"], &denied["policy"], &denied["declared"]],
        [&json!("deny"), &json!("UNAUTHORIZED"), &json!("limit@1.0.0"), &json!(true)]
    );
    let other = ("clerks@1.0.0".to_owned(), "other-resource".to_owned(), vec![]);
    let own = |result: &str| {
        ("limit@1.0.0".to_owned(), "selected".to_owned(), vec![format!("2 {result}")])
    };
    assert_eq!(parts(&denied), [other.clone(), own("satisfied")]);
    let allowed = explain(&["charge", r#"{"amount": 10}"#, "--caller", "clerk"]);
    assert_eq!(allowed["decision"], "allow");
    assert_eq!(parts(&allowed), [other.clone(), own("unsatisfied")]);
    let unfit = explain(&["charge", r#"{"amount": "many"}"#]);
    assert_eq!([&unfit["decision"], &unfit["caller"]], [&json!("invalid"), &Value::Null]);
    assert_eq!(unfit["invalidArguments"][0]["pointer"], "/amount");
    assert_eq!(parts(&unfit), [other, own("failed")]);
    // The policy about the upstream tool selects its alias.
    let alias = explain(&["pay", r#"{"amount": 11}"#, "--caller", "guest@1.0.0"]);
    assert_eq!(alias["policy"], "limit@1.0.0");
    let guest = explain(&["balance", "--caller", "guest"]);
    assert_eq!([&guest["decision"], &guest["policy"]], [&json!("deny"), &json!("clerks@1.0.0")]);

    registry.run(&["retire", "policy/limit@1.0.0", "--yes"]);
    let call = ["charge", r#"{"amount": 11}"#, "--caller", "clerk"];
    assert_eq!(explain(&call)["decision"], "allow");
    assert_eq!(explain(&[&call[..], &["--at", "1"]].concat())["decision"], "deny");
}

#[tokio::test]
async fn explain_completes_arguments_like_the_gateway() {
    let registry = Registry::start();
    let mut file = governed();
    let text = json!({ "type": "string" });
    let fixed = |name: &str, defaults: Value| {
        json!({
            "name": name, "version": "1.0.0",
            "inputSchema": {
                "type": "object", "properties": { "amount": { "type": "integer" }, "note": text },
            },
            "source": {
                "server": "bank", "serverVersion": "1.0.0", "tool": "charge",
                "defaults": defaults, "hideFields": ["amount"],
            },
        })
    };
    let tools = file["tools"].as_array_mut().expect("a list");
    tools.push(fixed("pay_large", json!({ "amount": 11 })));
    tools.push(fixed("pay_noted", json!({ "amount": 1, "note": "in ${REGION}" })));
    let agents = file["agents"].as_array_mut().expect("a list");
    agents.push(agent("payer", &[("pay_large", "1.0.0")]));
    applied(&registry, &file);
    let gateway = bank_gateway(&registry, &[]);
    gateway.ready().await;
    let client = ModernClient::agent(&gateway.mcp_url(), "payer", "1.0.0");
    let answer = client.call("pay_large", json!({})).await;
    let reason = &answer.message["result"]["_meta"]["registry/governance"]["reason"];
    assert_eq!(reason, "UNAUTHORIZED", "{:?}", answer.message);

    let explain = |more: &[&str]| registry.json(&[&["policy", "explain"], more].concat());
    let large = explain(&["pay_large", "--caller", "payer"]);
    assert_eq!(
        [&large["decision"], &large["reason"], &large["arguments"]],
        [&json!("deny"), &json!("UNAUTHORIZED"), &json!({ "amount": 11 })]
    );
    let sent = explain(&["pay_large", r#"{"amount": 1}"#, "--caller", "payer"]);
    assert_eq!(
        [&sent["decision"], &sent["invalidArguments"][0]["pointer"]],
        [&json!("invalid"), &json!("/amount")]
    );
    let noted = explain(&["pay_noted", "--variable", "REGION=eu"]);
    assert_eq!(noted["arguments"], json!({ "amount": 1, "note": "in eu" }));
    assert_eq!(registry.ctl(&["policy", "explain", "pay_noted"]).code, 2);
}

#[test]
fn explain_notes_invalid_arguments_that_no_condition_reads() {
    let offline = Offline::new();
    let explained =
        offline.run(&["policy", "explain", "balance", r#"{"amount": "x"}"#, "--caller", "clerk"]);
    let view = explained.json();
    assert_eq!(view["decision"], "allow", "gateways warn by default: {view}");
    assert_eq!(view["invalidArguments"][0]["pointer"], "/amount");
}

#[test]
fn decisions_select_versions_like_gateways() {
    let registry = Registry::start();
    let mut file = governed();
    let mut newer = file["tools"][1].clone();
    assert_eq!(newer["name"], "pay");
    newer["version"] = json!("2.0.0-rc.1");
    file["tools"].as_array_mut().expect("a list").push(newer);
    let cedar = "forbid (principal, action, resource) when { resource.version == \"2.0.0-rc.1\" };";
    let newest = json!({
        "name": "newest", "version": "1.0.0", "appliesTo": { "tools": ["pay"] },
        "authorization": { "cedar": cedar },
    });
    file["policies"].as_array_mut().expect("a list").push(newest);
    applied(&registry, &file);
    let explain = |more: &[&str]| registry.json(&[&["policy", "explain", "pay"], more].concat());
    registry.run(&["deprecate", "tool/pay@1.0.0", "--yes"]);
    assert_eq!(explain(&[])["decision"], "deny", "the pre-release is the only active version");
    registry.run(&["retire", "tool/pay@2.0.0-rc.1", "--yes"]);
    let explained = explain(&[]);
    assert_eq!(
        [&explained["called"], &explained["decision"]],
        [&json!("tool/pay@1.0.0"), &json!("allow")]
    );
    registry.run(&["retire", "agent/guest@1.0.0", "--yes"]);
    for retired in [&["pay", "{}", "--caller", "guest"][..], &["pay@2.0.0-rc.1"]] {
        let output = registry.ctl(&[&["policy", "explain"], retired].concat());
        assert_eq!((output.code, output.has_code("NOT_FOUND")), (1, true), "{output:?}");
    }
    let offline = Offline::new();
    let cases = offline
        .write("cases.yaml", "cases: [{ name: a, caller: guest, tool: pay, expect: allow }]");
    let output = registry.ctl(&["policy", "test", &cases, "--output", "json"]);
    assert_eq!(
        (output.code, &output.json()["diagnostics"][0]["pointer"]),
        (1, &json!("/cases/0/caller"))
    );
}

#[test]
fn explain_rejects_unusable_input() {
    let offline = Offline::new();
    let explain = |more: &[&str]| offline.run(&[&["policy", "explain"], more].concat());
    for unknown in [&["chrage"][..], &["charge", "{}", "--caller", "clrek"], &["charge@9.0.0"]] {
        let output = explain(unknown);
        assert_eq!((output.code, output.has_code("NOT_FOUND")), (1, true), "{output:?}");
    }
    let deep = format!("{}{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for bad in ["no JSON", "[]", "{\"a\":1,\"a\":2}", &deep, "@/no/such/file"] {
        let output = explain(&["charge", bad]);
        assert_eq!(output.code, 2, "{bad}: {output:?}");
    }
    let file = offline.write("arguments.json", r#"{"amount": 11}"#);
    assert_eq!(explain(&["charge", &format!("@{file}")]).json()["decision"], "deny");
}

#[test]
fn test_reports_each_case_with_its_line() {
    let offline = Offline::new();
    let output = offline.cases(
        "cases:\n\
         - { name: large, caller: clerk, tool: charge, arguments: { amount: 11 }, expect: deny, policy: limit }\n\
         - { name: small, caller: clerk, tool: charge, arguments: { amount: 10 }, expect: allow }\n\
         - name: wrong reason\n  tool: pay\n  arguments: { amount: 11 }\n  expect: deny\n  reason: POLICY_ERROR\n\
         - { name: guest, caller: guest, tool: balance, expect: allow }\n",
    );
    let view = output.json();
    let results = view["cases"].as_array().expect("a list").iter();
    let results: Vec<_> = results.map(|case| (&case["line"], &case["result"])).collect();
    let expected = [(2, "passed"), (3, "passed"), (4, "failed"), (9, "failed")];
    let expected = expected.map(|(line, result)| (json!(line), json!(result)));
    assert_eq!(results, expected.each_ref().map(|(line, result)| (line, result)));
    assert_eq!((output.code, &view["passed"], &view["failed"]), (1, &json!(2), &json!(2)));
    assert_eq!(view["cases"][3]["actual"]["policy"], "clerks@1.0.0");
    let passed = offline.cases("cases: [{ name: a, tool: pay, expect: allow }]");
    assert_eq!((passed.code, &passed.json()["failed"]), (0, &json!(0)));
}

/// Runs a command against the example registry and its policies.
fn example(arguments: &[&str]) -> Value {
    let files = ["-f", "examples/registry-v2.json", "-f", "examples/policies.yaml"];
    ctl(NOWHERE, &[arguments, &files, &["--output", "json"]].concat()).json()
}

#[test]
fn limits_on_hops_are_evaluated() {
    let explain = |hops: &str| example(&["policy", "explain", "fetch", "--hops", hops]);
    assert_eq!(explain("8")["decision"], "allow");
    let denied = explain("9");
    assert_eq!(
        [&denied["decision"], &denied["reason"], &denied["policy"]],
        [&json!("deny"), &json!("RATE_LIMITED"), &json!("loops@1.0.0")]
    );
    let compensation = ["policy", "explain", "fetch", "--hops", "9", "--purpose", "compensation"];
    assert_eq!(example(&compensation)["decision"], "allow");
    let offline = Offline::new();
    let cases = offline.write(
        "cases.yaml",
        "cases: [{ name: a, tool: fetch, hops: 9, expect: deny, reason: RATE_LIMITED, policy: loops }]",
    );
    assert_eq!(example(&["policy", "test", &cases])["passed"], 1);
}

#[test]
fn decisions_about_compositions_name_steps() {
    let steps = json!(["tool/fetch@1.2.3", "tool/create_document@1.0.0"]);
    assert_eq!(example(&["policy", "explain", "fetch_and_store"])["steps"], steps);
    assert_eq!(example(&["policy", "explain", "fetch"])["steps"], Value::Null);
    let offline = Offline::new();
    let cases =
        offline.write("cases.yaml", "cases: [{ name: a, tool: fetch_and_store, expect: allow }]");
    assert_eq!(example(&["policy", "test", &cases])["cases"][0]["steps"], steps);
    let note = |command: &[&str]| {
        let output = ctl(NOWHERE, &[command, &["-f", "examples/registry-v2.json"]].concat());
        assert!(output.success(), "{output:?}");
        output.stderr
    };
    insta::assert_snapshot!(
        note(&["policy", "test", &cases]),
        @"note: gateways also decide each step of tool/fetch_and_store@1.0.0; add cases for them, with `purpose: step` and `hops: 1`: tool/fetch@1.2.3, tool/create_document@1.0.0"
    );
    insta::assert_snapshot!(
        note(&["policy", "explain", "fetch_and_store"]).lines().last().expect("a note"),
        @"note: gateways also decide each step of tool/fetch_and_store@1.0.0; explain them as well, with --purpose step --hops 1: tool/fetch@1.2.3, tool/create_document@1.0.0"
    );
}

#[test]
fn candidates_are_decided_against_registered_entities() {
    let registry = Registry::start();
    let mut file = governed();
    let policies = file.as_object_mut().expect("an object").remove("policies");
    applied(&registry, &file);
    let offline = Offline::new();
    let exported = offline.write("exported.json", &registry.run(&["export"]));
    let candidate = json!({ "schemaVersion": "2.0", "policies": policies }).to_string();
    let candidate = offline.write("candidate.json", &candidate);
    let cases = offline.write(
        "cases.yaml",
        "cases: [{ name: a, tool: balance, caller: guest, expect: deny, policy: clerks }]",
    );
    let test = ["policy", "test", &cases, "--output", "json", "-f"];
    let alone = ctl(NOWHERE, &[&test[..], &[&candidate]].concat());
    assert_eq!(alone.code, 1, "{alone:?}");
    let against = ctl(NOWHERE, &[&test[..], &[&candidate, "--against", &exported]].concat());
    assert!(against.success(), "{against:?}");
    assert_eq!(against.json()["passed"], 1);
    let unknown = offline.write(
        "unknown.json",
        r#"{ "schemaVersion": "2.0", "tools": [{
        "name": "more", "version": "1.0.0",
        "source": { "server": "bank", "serverVersion": "1.0.0", "tool": "more" } }] }"#,
    );
    let refused = ctl(NOWHERE, &["policy", "test", &cases, "-f", &unknown, "-f", &candidate]);
    assert_eq!(refused.code, 1, "{refused:?}");
    insta::assert_snapshot!(
        refused.stderr.lines().find(|line| line.starts_with("error[source-unknown]")).expect("a finding"),
        @"error[source-unknown]: the tool's source server/bank@1.0.0 is not in the files"
    );
}

#[test]
fn invalid_cases_are_reported_with_their_lines() {
    let offline = Offline::new();
    for (case, line, pointer) in [
        ("{ name: a, tool: pay }", 2, "/cases/0"),
        ("{ name: a, tool: pay, expect: refuse }", 2, "/cases/0/expect"),
        ("{ name: a, tool: pay, expect: allow, argumnets: {} }", 2, "/cases/0/argumnets"),
        ("{ name: a, tool: pay, expect: allow, arguments: [] }", 2, "/cases/0/arguments"),
        ("{ name: a, tool: pay, expect: allow, reason: UNAUTHORIZED }", 2, "/cases/0/reason"),
        ("{ name: a, tool: pay, expect: allow, purpose: poll }", 2, "/cases/0/purpose"),
        ("name: a\n  tool: pya\n  expect: allow", 3, "/cases/0/tool"),
        (
            "name: a\n  tool: pay\n  arguments:\n    amount: many\n  expect: deny",
            5,
            "/cases/0/arguments/amount",
        ),
        ("name: a\n  tool: pay\n  caller: clrek\n  expect: allow", 4, "/cases/0/caller"),
    ] {
        let output = offline.cases(&format!("cases:\n- {case}\n"));
        let found = &output.json()["diagnostics"][0];
        assert_eq!(
            (output.code, &found["code"], &found["line"], &found["pointer"]),
            (1, &json!("case-invalid"), &json!(line), &json!(pointer)),
            "{case}"
        );
    }
    for text in ["", "cases: []", "- a", "cases: {", "policies: []"] {
        assert_eq!(offline.cases(text).code, 1, "{text}");
    }
    let many = "- { name: a, tool: pay, expect: allow }\n".repeat(10_001);
    assert_eq!(offline.cases(&format!("cases:\n{many}")).code, 1);
    let large = format!("cases: [{{ name: {}, tool: pay, expect: allow }}]", "x".repeat(10 << 20));
    assert_eq!(offline.cases(&large).code, 2);
}

#[test]
fn who_can_call_lists_agents_with_their_access() {
    let offline = Offline::new();
    let who = |tool: &str| {
        let view = offline.run(&["who-can-call", tool]).json();
        let agents = view["agents"].as_array().expect("a list").clone();
        let text =
            |agent: &Value, member: &str| agent[member].as_str().unwrap_or_default().to_owned();
        let row = |agent: &Value| {
            (text(agent, "agent"), text(agent, "access"), text(&agent["policies"], "0"))
        };
        agents.iter().map(row).collect::<Vec<_>>()
    };
    let row = |agent: &str, access: &str| (agent.to_owned(), access.to_owned(), String::new());
    assert_eq!(
        who("balance"),
        [row("agent/clerk@1.0.0", "allowed"), row("agent/guest@1.0.0", "denied")]
    );
    // The guest calls it through the alias `pay`.
    let callers = [row("agent/clerk@1.0.0", "depends"), row("agent/guest@1.0.0", "depends")];
    assert_eq!(who("charge"), callers);
    assert_eq!(who("tool/pay@1.0.0"), callers);
    let unknown = offline.run(&["who-can-call", "balnace"]);
    assert_eq!((unknown.code, unknown.has_code("NOT_FOUND")), (1, true), "{unknown:?}");
}

#[test]
fn who_can_call_marks_steps_and_compensations() {
    let files = ["-f", "examples/registry-v2.json", "-f", "examples/policies.yaml"];
    let who = |tool: &str| {
        let arguments = [&["who-can-call", tool, "--output", "json"][..], &files].concat();
        let view = ctl(NOWHERE, &arguments).json();
        let row = |agent: &Value| {
            ["agent", "purpose", "composition", "access"].map(|member| agent[member].clone())
        };
        view["agents"].as_array().expect("a list").iter().map(row).collect::<Vec<_>>()
    };
    let row = |purpose: &str, access: &str| {
        ["agent/adk-demo-agent@1.0.0", purpose, "tool/process_order@1.0.0", access]
            .map(|text| json!(text))
    };
    assert_eq!(who("payment_refund"), [row("compensation", "allowed")]);
    assert_eq!(who("payment_charge"), [row("step", "depends")]);
    let [direct, step, ..] = &who("fetch")[..] else { panic!("two rows") };
    assert_eq!([&direct[1], &direct[2]], [&json!("call"), &Value::Null]);
    assert_eq!([&step[1], &step[2]], [&json!("step"), &json!("tool/fetch_and_store@1.0.0")]);
    // The step calls `create_document`, which has the same upstream tool.
    let rows = who("create_note");
    let steps: Vec<_> = rows.iter().filter(|row| row[1] == "step").map(|row| &row[2]).collect();
    assert_eq!(steps, [&json!("tool/fetch_and_store@1.0.0")]);
}

/// Two nested compositions of `charge`, and a policy for the agent that declares the outer one.
fn nested(cedar: &str) -> Value {
    let mut file = bank();
    let composition = |name: &str, inner: &str| {
        json!({
            "name": name, "version": "1.0.0",
            "spec": { "pipeline": { "steps": [
                { "id": "s", "operation": { "tool": { "name": inner } } },
            ] } },
            "depends": [{ "type": "tool", "name": inner, "version": "1.0.0" }],
        })
    };
    let tools = file["tools"].as_array_mut().expect("a list");
    tools.extend([composition("inner", "charge"), composition("outer", "inner")]);
    file["agents"] = json!([agent("carol", &[("outer", "1.0.0")])]);
    let policy = json!({
        "name": "carol", "version": "1.0.0", "appliesTo": { "callers": ["carol"] },
        "default": "deny", "authorization": { "cedar": cedar },
    });
    file["policies"] = json!([policy]);
    file
}

#[test]
fn who_can_call_includes_decisions_about_compositions() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("nested.json");
    let permit = |condition: &str| format!("permit (principal, action, resource){condition};");
    for (cedar, access) in [
        (permit(""), "allowed"),
        (permit(" when { resource.name == \"charge\" }"), "denied"),
        (permit(" when { resource.name == \"charge\" || resource.name == \"outer\" }"), "denied"),
        (permit(" when { context.purpose == \"step\" }"), "denied"),
        (permit(" when { context.hops < 3 }"), "depends"),
    ] {
        fs::write(&path, nested(&cedar).to_string()).expect("written");
        let file = path.to_str().expect("UTF-8");
        let view = ctl(NOWHERE, &["who-can-call", "charge", "-f", file, "--output", "json"]).json();
        assert_eq!(view["agents"][0]["composition"], "tool/outer@1.0.0", "{cedar}: {view}");
        assert_eq!(view["agents"][0]["access"], access, "{cedar}");
        assert_eq!(view["steps"], Value::Null, "{cedar}");
        let view = ctl(NOWHERE, &["who-can-call", "outer", "-f", file, "--output", "json"]).json();
        assert_eq!(view["steps"], json!(["tool/inner@1.0.0"]), "{cedar}");
    }
}

#[tokio::test]
async fn simulate_decides_recorded_calls_again() {
    let registry = Registry::start();
    applied(&registry, &governed());
    let mut gateway = bank_gateway(&registry, &["--log-format", "json"]);
    gateway.ready().await;
    let call = async |agent: &str, tool: &str, arguments: Value| {
        let client = ModernClient::agent(&gateway.mcp_url(), agent, "1.0.0");
        client.call(tool, arguments).await;
    };
    call("clerk", "charge", json!({ "amount": 5 })).await;
    call("clerk", "balance", json!({})).await;
    call("guest", "balance", json!({})).await;
    gateway.process.stop();

    let offline = Offline::new();
    let trail = offline.write("audit.jsonl", &gateway.process.stderr());
    let simulate = |more: &[&str]| {
        let arguments = ["policy", "simulate", "--since", "7d", "--audit", &trail];
        registry.json(&[&arguments[..], more].concat())
    };
    let groups = |list: &Value| -> Vec<[String; 3]> {
        let text = |group: &Value, member: &str| group[member].as_str().expect("a text").to_owned();
        let group = |group: &Value| ["policy", "tool", "caller"].map(|name| text(group, name));
        list.as_array().expect("a list").iter().map(group).collect()
    };
    let names = |group: [&str; 3]| group.map(str::to_owned);
    let charge = names(["limit@1.0.0", "charge@1.0.0", "clerk@1.0.0"]);
    let view = simulate(&[]);
    assert_eq!([&view["calls"], &view["unchanged"]], [&json!(3), &json!(2)], "{view}");
    assert_eq!(
        (view["changed"].clone(), groups(&view["undecided"])),
        (json!([]), vec![charge.clone()])
    );
    assert_eq!(view["undecided"][0]["reason"], "context-not-recorded");

    let candidate = json!({
        "schemaVersion": "2.0",
        "policies": [{
            "name": "clerks", "version": "1.1.0", "appliesTo": { "tools": ["balance"] },
            "default": "deny",
            "authorization": { "cedar": "permit (principal == Agent::\"guest\", action, resource);" },
        }],
    });
    let candidate = offline.write("candidate.json", &candidate.to_string());
    let view = simulate(&["--file", &candidate]);
    assert_eq!(
        groups(&view["changed"]),
        [
            names(["clerks@1.1.0", "balance@1.0.0", "clerk@1.0.0"]),
            names(["clerks@1.0.0", "balance@1.0.0", "guest@1.0.0"]),
        ]
    );
    let directions: Vec<_> = ["from", "to"].map(|name| &view["changed"][0][name]).into();
    assert_eq!(directions, [&json!("allow"), &json!("deny")]);
    assert_eq!(groups(&view["undecided"]), [charge]);
    let missing = registry.ctl(&["policy", "simulate", "--audit", "/no/such/file"]);
    assert_eq!(missing.code, 2, "{missing:?}");
}

#[test]
fn simulate_leaves_denials_by_budgets_undecided() {
    let (registry, offline) = (Registry::start(), Offline::new());
    applied(&registry, &governed());
    let event = json!({
        "timestamp": "2026-11-26T05:00:00.000Z", "target": "audit", "event": "tools/call",
        "agent": "clerk", "agent_version": "1.0.0", "tool": "balance", "tool_version": "1.0.0",
        "identified_by": "headers", "permit": "deny:BUDGET_EXCEEDED", "outcome": "denied",
        "policies": "clerks@1.0.0:undecided costs@1.0.0:deny:BUDGET_EXCEEDED",
    });
    let trail = offline.write("audit.jsonl", &event.to_string());
    let view = registry.json(&["policy", "simulate", "--audit", &trail]);
    let group = json!({
        "policy": "costs@1.0.0", "tool": "balance@1.0.0", "caller": "clerk@1.0.0",
        "reason": "state-not-recorded", "calls": 1,
    });
    assert_eq!(view["undecided"], json!([group]), "{view}");
    assert_eq!(view["skipped"]["rejectedBefore"], 0, "{view}");
}

#[test]
fn simulate_decides_steps_by_recorded_purpose() {
    let (registry, offline) = (Registry::start(), Offline::new());
    applied(&registry, &governed());
    let step = |purpose: Option<&str>| {
        let mut event = json!({
            "timestamp": "2026-11-26T05:00:00.000Z", "target": "audit", "event": "composition/step",
            "agent": "guest", "agent_version": "1.0.0", "tool": "charge", "tool_version": "1.0.0",
            "identified_by": "headers", "permit": "allow", "outcome": "ok",
        });
        if let Some(purpose) = purpose {
            event["purpose"] = purpose.into();
        }
        event.to_string()
    };
    let candidate = json!({
        "schemaVersion": "2.0",
        "policies": [{
            "name": "limit", "version": "1.1.0", "appliesTo": { "tools": ["charge"] },
            "authorization": { "cedar": "forbid (principal, action == Action::\"call\", resource)
                when { context.purpose == \"step\" };" },
        }],
    });
    let candidate = offline.write("candidate.json", &candidate.to_string());
    for (purpose, expected) in
        [(Some("step"), [0, 1, 0]), (Some("compensation"), [1, 0, 0]), (None, [0, 0, 1])]
    {
        let trail = offline.write("audit.jsonl", &step(purpose));
        let view = registry.json(&["policy", "simulate", "--audit", &trail, "--file", &candidate]);
        let count = |list: &str| view[list].as_array().map_or(0, Vec::len);
        let unchanged = usize::try_from(view["unchanged"].as_u64().expect("a count"));
        let found = [unchanged.expect("a count"), count("changed"), count("undecided")];
        assert_eq!(found, expected, "{purpose:?}: {view}");
    }
}

#[test]
fn simulate_decides_messages_and_calls_of_aio() {
    let (registry, offline) = (Registry::start(), Offline::new());
    applied(&registry, &governed());
    let candidate = json!({
        "schemaVersion": "2.0",
        "policies": [{
            "name": "halt", "version": "1.0.0",
            "authorization": { "cedar": "forbid (principal, action == Action::\"send\", resource);
                forbid (principal, action == Action::\"call\", resource);" },
        }],
    });
    let candidate = offline.write("candidate.json", &candidate.to_string());
    let event = |event: &str, tool: &str| {
        let event = json!({
            "timestamp": "2026-11-26T05:00:00.000Z", "target": "audit", "event": event,
            "agent": "clerk", "agent_version": "1.0.0", "tool": tool, "tool_version": "1.0.0",
            "identified_by": "headers", "permit": "allow", "outcome": "ok",
        });
        event.to_string()
    };
    for (name, tool) in [
        ("SendMessage", "guest/work"),
        ("SendStreamingMessage", "guest/work"),
        ("call", "guest/work"),
        ("tools.call", "balance"),
    ] {
        let trail = offline.write("audit.jsonl", &event(name, tool));
        let view = registry.json(&["policy", "simulate", "--audit", &trail, "--file", &candidate]);
        let change = &view["changed"][0];
        assert_eq!([&change["to"], &change["policy"]], ["deny", "halt@1.0.0"], "{name}: {view}");
    }
    let trail = offline.write("audit.jsonl", &event("GetTask", "guest/work"));
    let view = registry.json(&["policy", "simulate", "--audit", &trail, "--file", &candidate]);
    assert_eq!(view["skipped"]["otherOperations"], 1, "{view}");
}

#[test]
fn simulate_rejects_log_in_text() {
    let (registry, offline) = (Registry::start(), Offline::new());
    applied(&registry, &governed());
    let simulate = |text: &str| {
        let trail = offline.write("gateway.log", text);
        registry.ctl(&["policy", "simulate", "--audit", &trail])
    };
    let text = "2026-11-26T05:00:00Z  INFO audit: event=\"tools/call\"\n\n";
    let rejected = simulate(text);
    assert!(rejected.code == 2 && rejected.stderr.contains("--log-format json"), "{rejected:?}");
    let mixed = simulate(&format!("{text}{{\"target\":\"gateway\"}}\n"));
    assert!(mixed.success(), "{mixed:?}");
    let empty = simulate("");
    assert!(empty.success(), "{empty:?}");
}
