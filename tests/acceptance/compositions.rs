//! The example's compositions from registration to result, with the demo servers behind them.

use acceptance::{
    Backend, CtlOutput, Gateway, GatewayOptions, ModernClient, Registry, ctl, eventually,
};
use serde_json::{Value, json};

use crate::{
    conformance::{fixture, official, run},
    documented_commands, guides,
};

async fn scene() -> (Registry, Backend, Gateway) {
    let (registry, backend) = (Registry::start(), Backend::start());
    registry.apply_example();
    let gateway = Gateway::start(&GatewayOptions {
        source: registry.url().replace("http", "grpc"),
        targets: backend.targets(),
        runtime: Some("{ inputValidation: deny, outputValidation: deny }".to_owned()),
        more: String::new(),
    });
    gateway.ready().await;
    (registry, backend, gateway)
}

/// A product of the demo servers.
const PRODUCT: &str = "prod-1";

fn order(id: &str, token: &str) -> Value {
    json!({
        "orderId": id, "customerId": "c-1", "totalAmount": 59.8, "currency": "EUR",
        "items": [{ "productId": PRODUCT, "quantity": 2 }],
        "paymentMethod": { "type": "credit_card", "token": token },
        "shippingAddress": { "street": "1 Main St", "city": "London",
            "zipCode": "N1", "country": "GB" },
    })
}

#[tokio::test]
async fn example_compositions_run() {
    let (_registry, _backend, gateway) = scene().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the servers are reached", || async {
        !client.call("list_users", json!({})).await.is_tool_error()
    })
    .await;
    let value = async |tool: &str, arguments: Value| {
        let answer = client.call(tool, arguments).await;
        assert!(!answer.is_tool_error(), "{answer:?}");
        answer.result()["structuredContent"].clone()
    };
    let stored = value("fetch_and_store", json!({ "url": "https://example.com" })).await;
    assert_eq!(stored["title"], "Example Domain");

    documented_commands::assert_output("docs/compositions.md", &gateway);
    let found = value("multi_search", json!({ "query": "quantum computing" })).await;
    let ids: Vec<_> =
        found["results"].as_array().expect("a list").iter().map(|r| &r["id"]).collect();
    let is_of =
        |prefix: &str| ids.iter().any(|id| id.as_str().is_some_and(|id| id.starts_with(prefix)));
    assert!(is_of("doc-") && is_of("user-"), "documents and people: {ids:?}");

    let user = value("list_users", json!({})).await["users"][0]["id"].clone();
    let both = value("create_task_and_notify", json!({ "title": "Look", "assignee": user })).await;
    assert_eq!((&both["task"]["title"], &both["notification"]["userId"]), (&json!("Look"), &user));
}

#[tokio::test]
async fn order_completes_or_is_compensated() {
    let (_registry, _backend, gateway) = scene().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let stock = async || {
        let answer = client.call("inventory_check", json!({ "productId": PRODUCT })).await;
        answer.result()["structuredContent"]["products"][0]["available"].clone()
    };
    eventually("the servers are reached", || async {
        !client.call("inventory_check", json!({ "productId": PRODUCT })).await.is_tool_error()
    })
    .await;
    let before = stock().await;
    let declined = client.call("process_order", order("o-1", "tok_declined")).await;
    assert!(declined.is_tool_error(), "{declined:?}");
    let failure = &declined.result()["_meta"]["registry/failure"];
    assert_eq!(failure["reason"], "saga-failed", "{declined:?}");
    assert_eq!(failure["failedStep"], "charge_payment", "{declined:?}");
    assert_eq!(stock().await, before, "all reservations are released");

    let done = client.call("process_order", order("o-2", "tok_ok")).await;
    assert!(!done.is_tool_error(), "{done:?}");
    let result = &done.result()["structuredContent"];
    assert_eq!(result["status"], "completed");
    assert!(result["trackingNumber"].is_string(), "{result}");
    assert_ne!(stock().await, before);
    let again = client.call("process_order", order("o-2", "tok_ok")).await;
    assert_eq!(&again.result()["structuredContent"], result, "an order is done once");
}

/// Both TypeScript SDKs validate `structuredContent` against the output schemas that they have listed.
#[tokio::test(flavor = "multi_thread")]
async fn failed_composition_raises_no_exception_in_typescript() {
    let (_registry, _backend, gateway) = scene().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the servers are reached", || async {
        !client.call("inventory_check", json!({ "productId": PRODUCT })).await.is_tool_error()
    })
    .await;
    for sdk in ["first", "legacy", "modern"] {
        let order = order(&format!("o-{sdk}"), "tok_declined").to_string();
        let mut call = official().node(&fixture("call.mjs"));
        call.arg(official().modules()).args([sdk, &gateway.mcp_url(), "process_order", &order]);
        let result: Value = serde_json::from_str(&run(call)).expect("a result");
        assert_eq!(result["isError"], true, "{sdk}: {result}");
        assert_eq!(result.get("structuredContent"), None, "{sdk}: {result}");
        let failure = &result["_meta"]["registry/failure"];
        assert_eq!(failure["failedStep"], "charge_payment", "{sdk}: {result}");
        assert_eq!(failure["reason"], "saga-failed", "{sdk}: {result}");
    }
}

const NOWHERE: &str = "http://127.0.0.1:1";

#[test]
fn compositions_are_checked_and_drawn_offline() {
    let example = ["compose", "check", "-f", "examples/registry-v2.json"];
    let checked = ctl(NOWHERE, &example);
    assert!(checked.success(), "{checked:?}");
    for line in [
        "multi_search (annotations: destructive)",
        "    gather: scatterGather of 2, 5000 ms",
        "    charge_payment compensated by: payment_refund",
        "valid: 5 compositions\n",
    ] {
        assert!(checked.stdout.contains(line), "{checked:?}");
    }
    let one = |output| {
        ctl(NOWHERE, &[&example[..], &["--tool", "process_order", "--output", output]].concat())
    };
    let mermaid = one("mermaid").stdout;
    assert!(mermaid.contains("flowchart") && mermaid.contains("charge_payment"), "{mermaid}");
    assert!(one("svg").stdout.starts_with("<svg"));
    let all = ctl(NOWHERE, &[&example[..], &["--output", "svg"]].concat());
    assert!(!all.success() && all.stderr.contains("use --tool NAME"), "{all:?}");
    let none = ctl(NOWHERE, &[&example[..], &["--tool", "process_orders"]].concat());
    assert!(!none.success() && none.stderr.contains("named `process_orders`"), "{none:?}");
}

#[test]
fn documented_composition_is_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("good-hits.json");
    let example = guides::blocks("docs/composition-fields.md", "json").remove(0);
    std::fs::write(&file, example).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let files = ["examples/registry-v2.json", file, "--tool", "good_hits"];
    let checked = ctl(NOWHERE, &[&["compose", "check"][..], &files].concat());
    assert!(checked.success() && checked.stderr.is_empty(), "{checked:?}");
}

/// Runs `command` on the example with another binding for the title of `fetch_and_store`.
fn with_title(command: &[&str], binding: Value) -> CtlOutput {
    let dir = tempfile::tempdir().expect("a directory");
    let text = std::fs::read_to_string(acceptance::root().join("examples/registry-v2.json"));
    let mut registry: Value = serde_json::from_str(&text.expect("a file")).expect("JSON");
    let tools = registry["tools"].as_array_mut().expect("a list");
    let tool = tools.iter_mut().find(|tool| tool["name"] == "fetch_and_store").expect("it exists");
    let fields = &mut tool["spec"]["pipeline"]["steps"][1]["input"]["construct"]["fields"];
    fields["title"] = binding;
    let file = dir.path().join("registry.json");
    let text = serde_json::to_string_pretty(&registry).expect("JSON");
    std::fs::write(&file, text).expect("written");
    ctl(NOWHERE, &[command, &["-f", file.to_str().expect("UTF-8")]].concat())
}

#[test]
fn mismatch_is_reported_at_its_binding() {
    for command in [&["compose", "check"][..], &["validate"]] {
        let checked = with_title(command, json!({ "constant": 7 }));
        assert_eq!(checked.code, 1, "{checked:?}");
        assert!(checked.has_code("composition-mismatch"), "{checked:?}");
        assert_caret_below_title(&checked);
    }
}

/// Asserts that the position shown is the binding of the title.
fn assert_caret_below_title(checked: &CtlOutput) {
    let lines: Vec<_> = checked.stderr.lines().collect();
    let caret = lines.iter().position(|line| line.trim_end().ends_with('^')).expect("a caret");
    let (before, line) = (lines[caret - 1], lines[caret]);
    assert!(before.contains("\"title\": {"), "{checked:?}");
    assert_eq!(before.find('{'), line.find('^'), "{checked:?}");
}

#[test]
fn misspelled_path_is_reported_with_a_suggestion() {
    let path = json!({ "reference": { "step": "fetch_content", "path": "$.tilte" } });
    let checked = with_title(&["validate"], path);
    let warnings = checked.stderr.matches("warning[").count();
    assert_eq!(warnings, 1, "one warning for one mistake: {checked:?}");
    let is_message =
        |line: &&str| line.contains("[composition-mismatch]") || line.contains("help: ");
    let message: Vec<_> = checked.stderr.lines().filter(is_message).map(str::trim).collect();
    insta::assert_snapshot!("misspelled-path", message.join("\n"));
    assert_caret_below_title(&checked);
}

/// A schema with an identity or a recursive part is checked like any other.
#[test]
fn mismatch_is_found_despite_identity_and_recursion() {
    let n = |of: &str, id: &str| {
        json!({ "$id": format!("https://example.com/{id}"), "type": "object", "required": ["n"],
            "properties": { "n": { "type": of }, "tree": { "$ref": "#/$defs/tree" } },
            "$defs": { "tree": { "type": "object", "properties": {
                "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } } } } } })
    };
    let source = |name: &str| json!({ "server": "s", "serverVersion": "1.0.0", "tool": name });
    let depends =
        ["give", "take"].map(|name| json!({ "type": "tool", "name": name, "version": "1.0.0" }));
    let steps = json!([{ "id": "a", "operation": { "tool": "give" } },
        { "id": "b", "operation": { "tool": "take" } }]);
    let provides = ["give", "take"].map(|name| json!({ "tool": name, "version": "1.0.0" }));
    let registry = json!({
        "schemaVersion": "2.0",
        "servers": [{ "name": "s", "version": "1.0.0", "provides": provides }],
        "tools": [
            { "name": "give", "version": "1.0.0", "source": source("give"),
              "outputSchema": n("string", "give") },
            { "name": "take", "version": "1.0.0", "source": source("take"),
              "inputSchema": n("integer", "take") },
            { "name": "both", "version": "1.0.0", "depends": depends,
              "spec": { "pipeline": { "steps": steps } } },
        ],
    });
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("registry.json");
    std::fs::write(&file, registry.to_string()).expect("written");
    let checked = ctl(NOWHERE, &["validate", "-f", file.to_str().expect("UTF-8")]);
    assert!(checked.code == 1 && checked.has_code("composition-mismatch"), "{checked:?}");
}

#[test]
fn json_nested_too_deep_is_reported_as_such() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("deep.json");
    std::fs::write(&file, format!("{}{}", "[".repeat(200), "]".repeat(200))).expect("written");
    let checked = ctl(NOWHERE, &["validate", "-f", file.to_str().expect("UTF-8")]);
    let file = format!("{}/", dir.path().display());
    insta::assert_snapshot!("json-nested-too-deep", checked.stderr.replace(&file, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn composition_runs_from_command_line() {
    let (_registry, _backend, gateway) = scene().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the servers are reached", || async {
        !client.call("list_users", json!({})).await.is_tool_error()
    })
    .await;
    let url = gateway.mcp_url();
    let run = |tool: &str, arguments: &Value| {
        let arguments = arguments.to_string();
        ctl(NOWHERE, &["compose", "run", tool, &arguments, "--gateway", &url])
    };
    let done = run("multi_search", &json!({ "query": "saga" }));
    assert!(done.success() && done.stdout.contains("doc-3"), "{done:?}");
    assert!(
        done.stdout.contains("gather/targets/0/search") && done.stdout.contains("ok"),
        "{done:?}"
    );
    let refused = run("process_order", &order("o-9", "tok_declined"));
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stdout.contains("reserve_inventory compensated"), "{refused:?}");
    assert!(refused.stderr.contains("payment_charge"), "{refused:?}");
    let unknown = run("nobody", &json!({}));
    assert!(unknown.code == 1 && unknown.stderr.contains("nobody"), "{unknown:?}");
    let invalid = run("multi_search", &json!({ "unknown": 1 }));
    assert!(invalid.code == 1 && invalid.stderr.lines().count() > 1, "{invalid:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn composition_run_explains_wrong_url() {
    let (registry, _backend, gateway) = scene().await;
    let url = gateway.mcp_url();
    let root = url.strip_suffix("/mcp").expect("the path of the endpoint").to_owned();
    let endpoint = ["HTTP status 404", ":7080/mcp"];
    for (wrong, code, expected) in [
        (root, 4, endpoint),
        (format!("{}/mcp", registry.url()), 4, endpoint),
        (url.replace("http://", "https://"), 3, ["InvalidContentType", "write http://"]),
        ("http://127.0.0.1:1/mcp".to_owned(), 3, ["Connection refused", "start the gateway"]),
        (url.replace("http://", ""), 2, ["invalid --gateway", "write http://"]),
    ] {
        let failed = ctl(NOWHERE, &["compose", "run", "multi_search", "{}", "--gateway", &wrong]);
        assert_eq!(failed.code, code, "{failed:?}");
        assert!(expected.iter().all(|text| failed.stderr.contains(text)), "{failed:?}");
    }
}
