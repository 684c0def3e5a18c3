//! Inspection of arguments, results and other messages, through the endpoint.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use gateway_protocol::mcp::Era;
use gateway_testkit::{McpServer, Received, Reply};
use gateway_upstream::{ChildLimits, TransportConfig};
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Setup, http},
    relayed::{ERAS, able, able_session, acceptable, asked, asking, knowing, messages},
};
use crate::{
    pipeline::DenialForm,
    testing::{Registered, agent, policy, server, tool},
};

const MAIL: &str = "jane.doe@acme-bank.org";
const CARD: &str = "4539578763621486";
const TOOLS: [&str; 4] = ["pay", "mail", "says", "rpc"];
const DETECTED: &str = "PII_DETECTED";
/// `card 4539578763621486 mail alice.long@firma.de` in base64.
const BASE64: &str = "Y2FyZCA0NTM5NTc4NzYzNjIxNDg2IG1haWwgYWxpY2UubG9uZ0BmaXJtYS5kZQ==";

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let mut entities = vec![
        server("up", &TOOLS, &["prompts", "resources"]),
        agent("a", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))),
        agent("b", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))),
    ];
    let schema = json!({ "type": "object", "properties": { "number": { "type": "integer" } } });
    entities.push(tool("pay", "1.0.0", json!({ "outputSchema": schema })));
    let schema = json!({ "type": "object", "properties": { "count": { "type": "integer" } } });
    entities.push(tool("mail", "1.0.0", json!({ "inputSchema": schema })));
    entities.extend(["says", "rpc"].map(|name| tool(name, "1.0.0", json!({}))));
    entities.extend(policies);
    entities
}

fn inspected(inspection: Value) -> Registered {
    policy("inspect", json!({ "inspection": inspection }))
}

async fn bench(inspection: Value) -> Bench {
    Bench::start(Setup::default(), entities([inspected(inspection)])).await
}

/// A gateway whose upstream answers calls, prompts and resources with this script.
async fn scripted(
    inspection: Value,
    script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> Bench {
    let capabilities = json!({ "tools": {}, "prompts": {}, "resources": {}, "completions": {},
        "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let upstream = McpServer::modern().with_capabilities(capabilities).start(script).await;
    let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
    let mut bench = Bench::start(setup, entities([inspected(inspection)])).await;
    bench.upstream = upstream;
    bench
}

/// The machine-readable form of a denial, or null.
async fn denial(bench: &Bench, tool: &str, arguments: Value) -> Value {
    let result = bench.call("a", tool, arguments).await.result();
    result["_meta"]["registry/governance"].clone()
}

#[tokio::test]
async fn blocked_argument_is_denied_and_not_sent() {
    let bench = bench(json!({ "arguments": { "contact": "block" } })).await;
    let got = bench.call("a", "mail", json!({ "to": [MAIL] })).await;
    let result = got.result();
    let found = &result["_meta"]["registry/governance"];
    let details = &found["error"]["details"];
    assert_eq!([&found["code"], &found["reason"]], [&json!(4220), &json!(DETECTED)]);
    assert_eq!([&details["class"], &details["pointer"]], ["contact", "/to/0"]);
    assert_eq!((&result["isError"], &details["policy"]), (&json!(true), &json!("inspect")));
    assert!(!got.text.contains(MAIL), "{got:?}");
    assert!(bench.calls().is_empty());
    assert_eq!(denial(&bench, "mail", json!({ "to": [CARD] })).await, Value::Null);
}

#[tokio::test]
async fn findings_are_counted_in_usage() {
    let bench = bench(json!({ "arguments": { "contact": "log", "financial": "block" } })).await;
    bench.call("a", "says", json!({ "to": [MAIL, MAIL], "card": CARD })).await;
    bench.call("a", "says", json!({ "to": "none" })).await;
    let usage = bench.gateway.usage().unwrap();
    acceptable(|| usage.buffer().pending_calls() == 2).await;
    let rows = usage.next_report().unwrap().rows;
    let found = rows.iter().map(|row| (&*row.key.verdict, row.totals.findings));
    let found: BTreeMap<_, _> = found.collect();
    assert_eq!(found, BTreeMap::from([("allow", 0), ("deny:PII_DETECTED", 3)]));
}

#[tokio::test]
async fn seed_form_has_the_code_of_the_seed() {
    let upstream = McpServer::modern()
        .start(|received| {
            let content = json!([{ "type": "text", "text": MAIL }]);
            received.result(&json!({ "resultType": "complete", "content": content }))
        })
        .await;
    let setup =
        Setup { denials: DenialForm::Error, transport: Some(http(&upstream)), ..Setup::default() };
    let strict = inspected(json!({ "profile": "strict" }));
    let bench = Bench::start(setup, entities([strict])).await;
    let session = bench.initialize("a").await;
    for arguments in [json!({ "to": MAIL }), json!({})] {
        let call = json!({ "name": "mail", "arguments": arguments });
        let got = bench.legacy(&session, "a", ("tools/call", call)).await;
        assert_eq!(got.error(), (200, -32002), "{got:?}");
        assert_eq!(got.json()["error"]["message"], "PII in tool params");
    }
    assert_eq!(upstream.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn finding_in_a_key_is_blocked() {
    let bench = bench(json!({ "results": { "contact": "redact" } })).await;
    let got = bench.call("a", "mail", json!({ "to": { MAIL: 1 } })).await;
    let found = &got.result()["_meta"]["registry/governance"];
    assert_eq!(found["reason"], DETECTED);
    assert!(!got.text.contains(MAIL), "{got:?}");
}

#[tokio::test]
async fn baggage_of_a_trace_is_inspected() {
    let bench = bench(json!({ "arguments": { "contact": "block" } })).await;
    let call = json!({ "name": "mail", "arguments": {} });
    let baggage = format!("user={MAIL}");
    let mut in_meta = call.clone();
    in_meta["_meta"] = json!({ "baggage": baggage });
    for ask in [
        Ask::modern("tools/call", in_meta),
        Ask::modern("tools/call", call).with("baggage", &baggage),
    ] {
        let result = bench.got(ask.by("a").build()).await.result();
        let found = &result["_meta"]["registry/governance"];
        assert_eq!(found["error"]["details"]["pointer"], "/_meta/baggage", "{result}");
    }
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn exception_covers_one_argument_of_one_policy() {
    let except = json!([{ "tool": "mail", "pointer": "/to" }]);
    let bench = bench(json!({ "arguments": { "contact": "block" }, "except": except })).await;
    assert_eq!(denial(&bench, "mail", json!({ "to": MAIL })).await, Value::Null);
    assert_eq!(denial(&bench, "mail", json!({ "cc": MAIL })).await["reason"], DETECTED);
    assert_eq!(denial(&bench, "says", json!({ "to": MAIL })).await["reason"], DETECTED);
}

#[tokio::test]
async fn redacted_result_keeps_its_text_copy_equal() {
    let bench = bench(json!({ "results": { "contact": "redact", "financial": "log" } })).await;
    let got = bench.call("a", "mail", json!({ "to": MAIL, "card": CARD })).await;
    let result = got.result();
    let structured = json!({ "to": "[redacted:contact]", "card": CARD });
    assert_eq!(result["structuredContent"], structured);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
    assert_eq!(
        bench.arguments(),
        [json!({ "to": MAIL, "card": CARD })],
        "the tool gets the values"
    );
}

#[tokio::test]
async fn redacted_result_that_violates_its_schema_is_blocked() {
    let bench = bench(json!({ "results": { "financial": "redact" } })).await;
    let number: u64 = CARD.parse().unwrap();
    let found = denial(&bench, "pay", json!({ "number": number })).await;
    assert_eq!(found["reason"], DETECTED);
    assert_eq!(found["error"]["details"]["direction"], "results");
    assert_eq!(denial(&bench, "pay", json!({ "number": 7 })).await, Value::Null);
}

#[tokio::test]
async fn blocked_result_stays_charged() {
    let budget = json!({ "name": "b", "per": "agent", "limit": "2", "window": "total" });
    let costs = policy("costs", json!({ "price": { "perCall": "1" }, "budgets": [budget] }));
    let block = inspected(json!({ "results": { "contact": "block" } }));
    let bench = Bench::start(Setup::default(), entities([costs, block])).await;
    for reason in [DETECTED, DETECTED, "BUDGET_EXCEEDED"] {
        assert_eq!(denial(&bench, "mail", json!({ "to": MAIL })).await["reason"], reason);
    }
    assert_eq!(bench.calls().len(), 2);
}

#[tokio::test]
async fn audit_mode_changes_and_rejects_nothing() {
    let members = json!({ "mode": "audit",
        "inspection": { "arguments": { "contact": "block" }, "results": { "contact": "redact" } } });
    let bench = Bench::start(Setup::default(), entities([policy("observe", members)])).await;
    let result = bench.call("a", "mail", json!({ "to": MAIL })).await.result();
    assert_eq!(result["structuredContent"]["to"], MAIL);
}

#[tokio::test]
async fn recorded_findings_beyond_the_limit_reject_nothing() {
    let many: Vec<_> = (0..10_050).map(|n| format!("p{n}@acme-bank.org")).collect();
    let upstream = McpServer::modern()
        .start(move |received| {
            let text = json!({ "type": "text", "text": many.join(" ") });
            received.result(&json!({ "resultType": "complete", "content": [text] }))
        })
        .await;
    for (action, reason) in [("log", Value::Null), ("redact", json!("POLICY_ERROR"))] {
        let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
        let inspection = json!({ "results": { "contact": action, "credential": "block" } });
        let bench = Bench::start(setup, entities([inspected(inspection)])).await;
        assert_eq!(denial(&bench, "mail", json!({})).await["reason"], reason, "{action}");
    }
}

/// The placeholder that replaces the address in a result.
async fn placeholder(bench: &Bench, agent: &str) -> String {
    let result = bench.call(agent, "mail", json!({ "to": MAIL })).await.result();
    result["structuredContent"]["to"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn placeholder_is_restored_for_listed_tools_only() {
    let tokenize = json!({ "results": { "contact": "tokenize" }, "restoreFor": ["mail"] });
    let bench = bench(tokenize).await;
    let placeholder = placeholder(&bench, "a").await;
    assert!(placeholder.starts_with("[[contact:"), "{placeholder}");
    let text = format!("Send it to {placeholder}.");
    for tool in ["mail", "pay"] {
        bench.call("a", tool, json!({ "text": text })).await.result();
    }
    let sent: Vec<_> = bench.arguments()[1..].iter().map(|sent| sent["text"].clone()).collect();
    assert_eq!(sent, [json!(format!("Send it to {MAIL}.")), json!(text)]);
}

#[tokio::test]
async fn violation_by_a_restored_value_omits_it() {
    let tokenize = json!({ "results": { "contact": "tokenize" }, "restoreFor": ["mail"] });
    let bench = bench(tokenize).await;
    let placeholder = placeholder(&bench, "a").await;
    let got = bench.call("a", "mail", json!({ "count": placeholder })).await;
    assert_eq!(got.result()["isError"], true, "{got:?}");
    assert!(got.text.contains("/count") && !got.text.contains(MAIL), "{got:?}");
    assert_eq!(bench.calls().len(), 1, "only the first call was sent");
}

#[tokio::test]
async fn placeholder_stays_for_tools_with_uninspected_results() {
    let tokenize = json!({ "results": { "contact": "tokenize" }, "restoreFor": ["*"] });
    let members = json!({ "appliesTo": { "tools": ["pay"] }, "inspection": tokenize });
    let bench = Bench::start(Setup::default(), entities([policy("inspect", members)])).await;
    let result = bench.call("a", "pay", json!({ "to": MAIL })).await.result();
    let placeholder = &result["structuredContent"]["to"];
    assert!(placeholder.as_str().unwrap().starts_with("[[contact:"), "{placeholder}");
    for tool in ["mail", "pay"] {
        bench.call("a", tool, json!({ "to": placeholder })).await.result();
    }
    let sent: Vec<_> = bench.arguments()[1..].iter().map(|sent| sent["to"].clone()).collect();
    assert_eq!(sent, [placeholder.clone(), json!(MAIL)]);
}

#[tokio::test]
async fn placeholder_of_another_caller_is_rejected() {
    let tokenize = json!({ "results": { "contact": "tokenize" }, "restoreFor": ["*"] });
    let bench = bench(tokenize).await;
    let placeholder = placeholder(&bench, "a").await;
    let escaped = placeholder.replace('[', "\\u005b");
    for text in [placeholder.as_str(), &escaped, "[[contact:000000]]"] {
        let call = json!({ "name": "mail", "arguments": { "text": "TEXT" } });
        let ask = Ask::modern("tools/call", call).by("b");
        let body = ask.body.to_string().replace("TEXT", text);
        assert_eq!(bench.got(ask.build_with(body)).await.result()["isError"], true, "{text}");
    }
    assert_eq!(bench.calls().len(), 1, "only the first call was sent");
}

#[tokio::test]
async fn value_of_several_classes_needs_all_of_them_hidden() {
    let tokenize = json!({ "contact": "tokenize", "financial": "tokenize" });
    for (hidden, is_restored) in [
        (json!({ "financial": "redact" }), false),
        (json!({ "financial": "redact", "contact": "tokenize" }), true),
    ] {
        let replacing = json!({ "appliesTo": { "tools": ["pay"] },
            "inspection": { "results": tokenize, "restoreFor": ["mail"] } });
        let hiding =
            json!({ "appliesTo": { "tools": ["mail"] }, "inspection": { "results": hidden } });
        let policies = [policy("replaces", replacing), policy("hides", hiding)];
        let bench = Bench::start(Setup::default(), entities(policies)).await;
        let result = bench.call("a", "pay", json!({ "to": BASE64 })).await.result();
        let placeholder = &result["structuredContent"]["to"];
        assert!(placeholder.as_str().unwrap().starts_with("[["), "{placeholder}");
        bench.call("a", "mail", json!({ "to": placeholder })).await.result();
        let expected = if is_restored { &json!(BASE64) } else { placeholder };
        assert_eq!(&bench.arguments()[1]["to"], expected, "{hidden}");
    }
}

#[tokio::test]
async fn restored_arguments_have_the_limit_of_requests() {
    let tokenize = json!({ "results": { "contact": "tokenize" }, "restoreFor": ["mail"] });
    let bench = bench(tokenize).await;
    let long = format!("{}@{}.org", "x".repeat(60), "y".repeat(60));
    let result = bench.call("a", "mail", json!({ "to": long })).await.result();
    let placeholder = result["structuredContent"]["to"].as_str().unwrap();
    for (count, is_sent) in [(400, true), (1_000, false)] {
        let got = bench.call("a", "mail", json!({ "to": placeholder.repeat(count) })).await;
        assert_eq!(got.json()["error"].is_null(), is_sent, "{count}: {got:?}");
    }
    assert_eq!(bench.arguments()[1]["to"], long.repeat(400));
    assert_eq!(bench.calls().len(), 2);
}

#[tokio::test]
async fn unknown_placeholders_in_names_and_prompts_are_rejected() {
    let unknown = "[[contact:000000]]";
    let tokenize = json!({ "results": { "contact": "tokenize" } });
    let bench =
        scripted(tokenize, |received| received.result(&leaking(received.rpc_method()))).await;
    bench.until_features().await;
    let got = bench.call("a", "mail", json!({ "all": [{ unknown: 1 }] })).await;
    assert_eq!(got.result()["isError"], true, "{got:?}");
    let arguments = json!({ "x": unknown });
    let argument = json!({ "name": "x", "value": unknown });
    let reference = json!({ "type": "ref/prompt", "name": "p" });
    for (method, params) in [
        ("prompts/get", json!({ "name": "p", "arguments": arguments })),
        ("completion/complete", json!({ "ref": reference, "argument": argument })),
    ] {
        bench.modern("a", method, params).await.error();
        assert!(bench.upstream.seen(method).is_empty(), "{method} was sent");
    }
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn entry_with_a_replaced_name_is_not_listed() {
    let tokenize = json!({ "results": { "contact": "tokenize" } });
    let bench = scripted(tokenize, |received| match received.rpc_method() {
        "prompts/list" => {
            let prompts = json!([{ "name": MAIL }, { "name": "p", "description": MAIL }]);
            received.result(&json!({ "resultType": "complete", "prompts": prompts }))
        }
        method => received.result(&leaking(method)),
    })
    .await;
    bench.until_features().await;
    let listed = bench.modern("a", "prompts/list", json!({})).await.result();
    let prompts = listed["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 1, "{listed}");
    assert!(prompts[0]["description"].as_str().unwrap().starts_with("[[contact:"), "{listed}");
}

#[tokio::test]
async fn only_results_of_a_type_have_opaque_members() {
    let bench = bench(json!({ "results": { "contact": "redact" } })).await;
    let result = json!({ "resultType": "complete", "taskId": MAIL, "requestState": MAIL,
        "progressToken": MAIL, "content": [{ "type": "text", "text": "done" }] });
    let got = bench.call("a", "says", json!({ "result": result })).await;
    assert!(got.result()["content"][0]["text"] == "done", "{got:?}");
    assert!(!got.text.contains(MAIL), "{got:?}");
}

#[tokio::test]
async fn text_in_binary_content_is_inspected() {
    let bench = bench(json!({ "results": { "contact": "redact" } })).await;
    let says =
        |content: Value| json!({ "result": { "resultType": "complete", "content": [content] } });
    let resource = json!({ "uri": "test://r", "mimeType": "text/plain", "blob": BASE64 });
    let found = denial(&bench, "says", says(json!({ "type": "resource", "resource": resource })));
    let found = found.await;
    assert_eq!(found["reason"], DETECTED);
    assert_eq!(found["error"]["details"]["pointer"], "/content/0/resource/blob");
    let image = json!({ "type": "image", "mimeType": "image/png", "data": format!("of {MAIL}") });
    let result = bench.call("a", "says", says(image)).await.result();
    assert_eq!(result["content"][0]["data"], "of [redacted:contact]");
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" });
    assert_eq!(denial(&bench, "says", says(image)).await, Value::Null);
}

#[tokio::test]
async fn message_and_data_of_an_error_are_redacted() {
    let redact = json!({ "results": { "contact": "redact" } });
    let bench = scripted(redact, |received| {
        let error = json!({ "code": -32050, "message": format!("no {MAIL}"), "data": [MAIL] });
        received.error(200, &error)
    })
    .await;
    let error = bench.call("a", "rpc", json!({})).await.json()["error"].clone();
    let redacted = "[redacted:contact]";
    assert_eq!(error["message"], format!("no {redacted}"));
    assert_eq!(error["data"], json!([redacted]));
}

#[tokio::test]
async fn blocked_error_message_is_a_denial() {
    let bench = scripted(json!({ "results": { "contact": "block" } }), |received| {
        received.error(200, &json!({ "code": -32050, "message": MAIL }))
    })
    .await;
    let got = bench.call("a", "rpc", json!({})).await;
    assert_eq!(got.result()["_meta"]["registry/governance"]["reason"], DETECTED);
    assert!(!got.text.contains(MAIL), "{got:?}");
}

#[tokio::test]
async fn progress_and_log_messages_are_redacted() {
    let redact = json!({ "results": { "contact": "redact", "credential": "block" } });
    let bench = scripted(redact, |received| {
        if received.rpc_method() != "tools/call" {
            return received.unknown_method();
        }
        let (id, meta) = (received.body["id"].clone(), &received.body["params"]["_meta"]);
        let tell = |method: &str, params: Value| {
            json!({ "jsonrpc": "2.0", "method": method, "params": params })
        };
        let progress = json!({ "progressToken": meta["progressToken"], "progress": 1,
            "message": format!("asks {MAIL}") });
        let secret = "-----BEGIN PRIVATE KEY-----\nMIIBVQIBADANBgkqhkiG9w0BAQEFAASCAT8wggE7AgEAAkEA\n-----END PRIVATE KEY-----";
        let result = json!({ "resultType": "complete", "content": [] });
        Reply::events(stream::iter([
            tell("notifications/progress", progress),
            tell("notifications/message", json!({ "level": "error", "data": { "to": MAIL } })),
            tell("notifications/message", json!({ "level": "error", "data": secret })),
            tell("notifications/message", json!({ "level": "error", "data": "x".repeat(300_000) })),
            json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        ]))
    })
    .await;
    let meta = json!({ "progressToken": 3, "io.modelcontextprotocol/logLevel": "debug" });
    let call = json!({ "name": "mail", "arguments": {}, "_meta": meta });
    let got = bench.got(Ask::modern("tools/call", call).by("a").build()).await;
    let received = messages(&got.text);
    assert_eq!(received.len(), 3, "the blocked and the long message are dropped: {got:?}");
    assert_eq!(received[0]["params"]["message"], "asks [redacted:contact]");
    assert_eq!(received[1]["params"]["data"], json!({ "to": "[redacted:contact]" }));
}

#[tokio::test]
async fn questions_and_answers_are_inspected_in_each_era() {
    for era in ERAS {
        let (_, transport) = FarSide::start(era).await;
        let inspection = json!({ "results": { "contact": "redact" },
            "arguments": { "financial": "block" } });
        let bench = asking(transport, vec![inspected(inspection)]).await;
        let mut call = json!({ "name": "asks", "arguments": { "ask": MAIL } });
        let asked = bench.got(able("tools/call", call.clone()).build()).await.result();
        let (name, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["params"]["message"], "[redacted:contact]", "{era:?}");
        let answer = json!({ "action": "accept", "content": { "card": CARD } });
        call["inputResponses"] = json!({ name.as_str(): answer });
        call["requestState"] = asked["requestState"].clone();
        let got = bench.got(able("tools/call", call).build()).await;
        let received = messages(&got.text).pop().unwrap_or_else(|| got.json());
        let result = &received["result"];
        match era {
            Era::Modern => {
                assert_eq!(result["_meta"]["registry/governance"]["reason"], DETECTED);
            }
            // The server gets an error instead of the answer, and returns its code.
            Era::Legacy => assert_eq!(result["content"][0]["text"], "-32602", "{received}"),
        }
    }
}

/// A gateway with an upstream of 2025-11-25 whose tool `asks` the client.
async fn legacy_session(inspection: Value) -> (Bench, String) {
    let (_, transport) = FarSide::start(Era::Legacy).await;
    let bench = asking(transport, vec![inspected(inspection)]).await;
    let session = able_session(&bench).await;
    (bench, session)
}

/// A server of 2025-06-18 whose tool `asks` repeats data of an earlier call in a question without a
/// token.
const REPEATING: &str = r#"
respond() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) respond '"error":{"code":-32601,"message":"no"}';;
  *'"initialize"'*) respond '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}';;
  *'"tools/list"'*) respond '"result":{"tools":[]}';;
  *'"pay"'*) respond '"result":{"content":[]}';;
  *'"asks"'*) printf '%s\n' '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"jane.doe@acme-bank.org","requestedSchema":{"type":"object","properties":{}}}}';;
esac; done
"#;

#[tokio::test]
async fn question_without_call_has_strictest_rules() {
    let transport = TransportConfig::Stdio {
        command: "sh".into(),
        args: vec!["-c".to_owned(), REPEATING.to_owned()],
        env: BTreeMap::new(),
        cwd: None,
        limits: ChildLimits::default(),
        max_caller_children: None,
    };
    let of_pay = json!({ "appliesTo": { "tools": ["pay"] },
        "inspection": { "results": { "contact": "redact" } } });
    let entities = vec![
        server("up", &["pay", "asks"], &[]),
        agent("a", "1.0.0", &[("pay", "1.0.0"), ("asks", "1.0.0")]),
        tool("pay", "1.0.0", json!({})),
        tool("asks", "1.0.0", json!({})),
        policy("inspect", of_pay),
    ];
    let setup = Setup { transport: Some(transport), ..Setup::default() };
    let bench = Bench::start(setup, entities).await;
    let session = able_session(&bench).await;
    let call = |id: u32, tool: &str| {
        let mut ask = Ask::legacy(&session, "tools/call", json!({ "name": tool })).by("a");
        ask.body["id"] = json!(id);
        ask.build()
    };
    bench.got(call(1, "pay")).await;
    let mut body = bench.send(call(2, "asks")).await.into_body().into_data_stream();
    let mut text = String::new();
    while !text.contains("elicitation/create") {
        let chunk = body.next().await.expect("a question").unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let question = messages(&text).pop().unwrap();
    assert_eq!(question["params"]["message"], "[redacted:contact]");
}

#[tokio::test]
async fn error_of_a_client_is_inspected() {
    let (bench, session) = legacy_session(json!({ "arguments": { "financial": "block" } })).await;
    // The server returns the code of the error.
    for (error, code) in [
        (json!({ "code": -1, "message": "no" }), "-1"),
        (json!({ "code": -1, "message": format!("no {CARD}") }), "-32602"),
        (json!({ "code": -1, "message": "no", "data": { "card": CARD } }), "-32602"),
    ] {
        let result = asked(&bench, &session, ("asks", json!({ "error": error }))).await;
        assert_eq!(result["content"][0]["text"], code, "{error}");
    }
}

#[tokio::test]
async fn exception_does_not_cover_answers_and_meta() {
    let except = ["/content", "/_meta"].map(|at| json!({ "tool": "asks", "pointer": at }));
    let inspection = json!({ "arguments": { "financial": "block" }, "except": except });
    let (bench, session) = legacy_session(inspection).await;
    let answer = json!({ "result": { "action": "accept", "content": { "card": CARD } } });
    let result = asked(&bench, &session, ("asks", answer)).await;
    assert_eq!(result["content"][0]["text"], "-32602");
    let call = json!({ "name": "asks", "_meta": { "acme.example/note": CARD } });
    let result = bench.got(able("tools/call", call).build()).await.result();
    assert_eq!(result["_meta"]["registry/governance"]["reason"], DETECTED);
}

/// The result of each method, with the address.
fn leaking(method: &str) -> Value {
    let text = json!({ "type": "text", "text": MAIL });
    let mut result = match method {
        "tools/call" => {
            return json!({ "resultType": "task", "taskId": "7+7", "status": "working" });
        }
        "tasks/get" => json!({ "taskId": "7+7", "status": "completed", "statusMessage": MAIL,
            "result": { "content": [text] } }),
        "prompts/list" => json!({ "prompts": [{ "name": "p", "description": MAIL }] }),
        "prompts/get" => json!({ "messages": [{ "role": "user", "content": text }] }),
        "resources/read" => json!({ "contents": [{ "uri": "test://r", "text": MAIL }] }),
        "completion/complete" => json!({ "completion": { "values": [MAIL] } }),
        _ => json!({ "resources": [], "resourceTemplates": [] }),
    };
    result["resultType"] = "complete".into();
    result
}

/// A request of a client that supports tasks. `note` is a member of its `_meta`.
async fn noted(bench: &Bench, (method, mut params): (&str, Value), note: &str) -> Value {
    params["_meta"] = json!({ "acme.example/note": note });
    let mut ask = knowing(method, params.clone());
    if let Some(id) = params["taskId"].as_str().or(params["uri"].as_str()) {
        ask = ask.with("mcp-name", id);
    }
    bench.got(ask.build()).await.json()
}

#[tokio::test]
async fn each_method_is_inspected_in_both_directions() {
    let inspection =
        json!({ "results": { "contact": "redact" }, "arguments": { "financial": "block" } });
    let bench =
        scripted(inspection, |received| received.result(&leaking(received.rpc_method()))).await;
    bench.until_features().await;
    let listed = bench.modern("a", "prompts/list", json!({})).await.result();
    assert_eq!(listed["prompts"][0]["description"], "[redacted:contact]");
    let call = ("tools/call", json!({ "name": "mail", "arguments": {} }));
    let task = noted(&bench, call.clone(), "").await["result"]["taskId"].clone();
    let argument = json!({ "name": "x", "value": "v" });
    let reference = json!({ "type": "ref/prompt", "name": "p" });
    let requests = [
        ("tasks/get", json!({ "taskId": task })),
        ("prompts/get", json!({ "name": "p" })),
        ("resources/read", json!({ "uri": "test://r" })),
        ("completion/complete", json!({ "ref": reference, "argument": argument })),
    ];
    for request in &requests {
        let text = noted(&bench, request.clone(), "").await.to_string();
        assert!(text.contains("[redacted:contact]") && !text.contains(MAIL), "{text}");
    }
    for request in requests.into_iter().chain([call]) {
        let sent = bench.upstream.seen(request.0).len();
        let denied = noted(&bench, request.clone(), CARD).await;
        let reasons = [
            &denied["error"]["data"]["reason"],
            &denied["result"]["_meta"]["registry/governance"]["reason"],
        ];
        assert!(reasons.iter().any(|reason| **reason == DETECTED), "{denied}");
        assert_eq!(bench.upstream.seen(request.0).len(), sent, "{} was sent", request.0);
    }
}

#[tokio::test]
async fn binary_content_is_blocked_if_configured() {
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" });
    let result = json!({ "resultType": "complete", "content": [image] });
    for (binary, reason) in [("allow", Value::Null), ("block", json!(DETECTED))] {
        let bench = bench(json!({ "results": { "contact": "log" }, "binary": binary })).await;
        let found = denial(&bench, "says", json!({ "result": result })).await;
        assert_eq!(found["reason"], reason);
    }
}
