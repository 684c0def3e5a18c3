//! Audit events: one per call, without values.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use gateway_policy::{Access, RuntimeValidation, ValidationMode};
use gateway_protocol::mcp::Era;
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Setup},
    relayed,
};
use crate::testing::{agent, policy, server, tool};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Captures the audit events of this thread.
    pub(crate) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        Self::filtered("audit=info")
    }

    /// Captures the log of this thread.
    fn filtered(filter: &str) -> (Self, tracing::subscriber::DefaultGuard) {
        gateway_testkit::keep_second_subscriber();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_env_filter(filter)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

async fn bench(input: ValidationMode) -> Bench {
    let policy = RuntimeValidation {
        input_validation: input,
        output_validation: ValidationMode::Warn,
        contract_drift: ValidationMode::Ignore,
        unknown_caller: Access::Warn,
        undeclared_dependency: Access::Deny,
    };
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
    let entities = vec![
        tool(
            "t",
            "1.2.3",
            json!({ "inputSchema": schema, "outputSchema": schema,
            "source": { "tool": "real" }, "metadata": { "cost": 0.015 } }),
        ),
        tool("slow", "1.0.0", json!({})),
        tool("fails", "1.0.0", json!({})),
        agent("team/a", "2.0.0", &[("t", "1.2.3"), ("slow", "1.0.0"), ("fails", "1.0.0")]),
    ];
    Bench::start(Setup { policy, ..Setup::default() }, entities).await
}

fn fields(event: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| event[name].clone()).collect()
}

#[tokio::test]
async fn successful_call_is_audited_with_all_fields() {
    let bench = bench(ValidationMode::Error).await;
    let (log, _guard) = Log::start();
    bench.call("team/a", "t", json!({ "q": "s3cret-argument" })).await.result();
    let [event] = <[Value; 1]>::try_from(log.events()).unwrap();
    assert_eq!(event["target"], "audit");
    let expected = json!({
        "event": "tools/call", "agent": "team/a", "agent_version": "2.0.0",
        "identified_by": "headers", "client": "tester", "client_version": "1.0.0",
        "tool": "t", "tool_version": "1.2.3", "server": "up", "server_version": "1.0.0",
        "revision": 1, "era": "modern", "permit": "allow", "input": "valid", "output": "valid",
        "outcome": "ok", "cost": 0.015,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(event[name], *value, "{name}");
    }
    assert!(event["duration_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(event["trace_id"].as_str().map(str::len), Some(32));
    assert_eq!(event["span_id"].as_str().map(str::len), Some(16));
    assert!(event["request_bytes"].as_u64().unwrap() > 100);
    assert!(event["response_bytes"].as_u64().unwrap() > 100);
    assert!(event.get("error").is_none());
    assert!(!log.text().contains("s3cret"));
}

#[tokio::test]
async fn retired_dependency_is_audited_with_own_reason() {
    for (mode, permit) in
        [(Access::Deny, "deny:retired-dependency"), (Access::Warn, "warn:retired-dependency")]
    {
        let mut setup = Setup::default();
        setup.policy.undeclared_dependency = mode;
        let entities = vec![
            tool("fails", "1.0.0", json!({})).retired(),
            tool("fails", "2.0.0", json!({})),
            agent("team/a", "1.0.0", &[("fails", "1.0.0")]),
        ];
        let bench = Bench::start(setup, entities).await;
        let (log, _guard) = Log::start();
        bench.call("team/a", "fails", json!({})).await;
        let [event] = <[Value; 1]>::try_from(log.events()).unwrap();
        assert_eq!(event["permit"], permit);
        if mode == Access::Deny {
            let error = "the caller declares tool/fails@1.0.0, which is retired";
            assert_eq!(fields(&event, &["outcome", "error"]), ["denied", error]);
        }
    }
}

#[tokio::test]
async fn every_outcome_has_audit_event() {
    let strict = bench(ValidationMode::Error).await;
    let lenient = bench(ValidationMode::Warn).await;
    let (log, _guard) = Log::start();
    let secret = json!({ "q": 4711 });
    strict.call("team/a", "t", secret.clone()).await.failure();
    lenient.call("team/a", "t", secret).await.result();
    strict.call("team/a", "ghost", json!({})).await.error();
    strict.call("", "fails", json!({})).await.result();
    strict.call("ghost-agent", "ghost", json!({})).await.error();
    strict.call("team/a", "slow", json!({})).await.failure();
    let ask = Ask::modern("tools/call", json!({ "name": "slow" })).by("team/a");
    let calling = strict.send(ask.build());
    assert!(tokio::time::timeout(Duration::from_millis(100), calling).await.is_err());

    let names = ["tool", "permit", "input", "output", "outcome", "cost"];
    let told: Vec<_> = log.events().iter().map(|event| fields(event, &names)).collect();
    let expected = json!([
        ["t", "allow", "violated", "skipped", "invalid-input", null],
        ["t", "allow", "violated", "violated", "ok", 0.015],
        ["ghost", "deny:undeclared-dependency", "skipped", "skipped", "denied", null],
        ["fails", "warn:unknown-caller", "valid", "skipped", "tool-error", null],
        ["ghost", "deny:no-such-tool", "skipped", "skipped", "denied", null],
        ["slow", "allow", "valid", "skipped", "upstream-timeout", null],
        ["slow", "allow", "valid", "skipped", "cancelled", null],
    ]);
    assert_eq!(json!(told), expected);
    assert!(!log.text().contains("4711"), "{}", log.text());
    assert_eq!(log.events()[4]["claimed_agent"], "ghost-agent");
    let first = &log.events()[0];
    assert_eq!(first["error"], "the arguments violate the input schema: at [/q]");
}

#[tokio::test]
async fn denied_and_failed_calls_are_logged_with_reason() {
    let bench = bench(ValidationMode::Error).await;
    let (log, _guard) = Log::filtered("audit=info,gateway_agent::audit=info");
    bench.call("team/a", "t", json!({ "q": "s3cret" })).await.result();
    bench.call("", "fails", json!({})).await.result();
    bench.call("team/a", "t", json!({ "q": ["s3cret"] })).await.failure();
    bench.call("team/a", "ghost", json!({})).await.error();
    bench.call("ghost-agent", "ghost", json!({})).await.error();
    bench.call("team/a", "slow", json!({})).await.failure();

    let is_audited = |event: &Value| event["target"] == "audit";
    let (audited, logged): (Vec<_>, Vec<_>) = log.events().into_iter().partition(is_audited);
    let names = ["level", "message", "agent", "tool", "server", "reason"];
    let told: Vec<_> = logged.iter().map(|line| fields(line, &names)).collect();
    let (agent, server) = ("agent/team/a@2.0.0", "server/up@1.0.0");
    let expected = json!([
        ["INFO", "call failed", agent, "t", server, "invalid-input"],
        ["INFO", "call denied", agent, "ghost", null, "undeclared-dependency"],
        ["INFO", "call denied", null, "ghost", null, "no-such-tool"],
        ["INFO", "call failed", agent, "slow", server, "upstream-timeout"],
    ]);
    assert_eq!(json!(told), expected);
    let traces = |events: &[Value]| -> Vec<Value> {
        events.iter().map(|event| event["trace_id"].clone()).collect()
    };
    assert_eq!(traces(&logged), traces(&audited[2..]), "the calls with a result have no line");
    let text = json!(logged).to_string();
    assert!(!text.contains("s3cret") && !text.contains("ghost-agent"), "{text}");
}

#[tokio::test]
async fn policy_denial_is_logged_with_its_reason() {
    let forbid = json!({ "authorization": { "cedar": "forbid (principal, action, resource);" } });
    let entities = vec![
        server("up", &["t"], &[]),
        tool("t", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("t", "1.0.0")]),
        policy("all", forbid),
    ];
    let bench = Bench::start(Setup::default(), entities).await;
    let (log, _guard) = Log::filtered("gateway_agent::audit=info");
    bench.call("a", "t", json!({})).await.failure();
    let line = &log.events()[0];
    assert_eq!(fields(line, &["message", "tool", "reason"]), ["call denied", "t", "UNAUTHORIZED"]);
}

#[tokio::test]
async fn event_of_concealed_denial_names_the_policy() {
    let forbid = json!({ "authorization": { "cedar": "forbid (principal, action, resource);" } });
    let entities =
        vec![server("up", &["t"], &[]), tool("t", "1.0.0", json!({})), policy("all", forbid)];
    let bench = Bench::start(Setup::default(), entities).await;
    let (log, _guard) = Log::start();
    assert_eq!(bench.call("stranger", "t", json!({})).await.error(), (200, -32602));
    let event = &log.events()[0];
    assert_eq!(event["permit"], "deny:UNAUTHORIZED");
    insta::assert_snapshot!(event["error"], @r#""policy/all@1.0.0 denies the call: UNAUTHORIZED""#);
}

#[tokio::test]
async fn denied_call_leaves_other_policies_undecided() {
    let forbid = |mode: &str| {
        json!({ "mode": mode,
            "authorization": { "cedar": "forbid (principal, action, resource);" } })
    };
    let entities = vec![
        server("up", &["t"], &[]),
        tool("t", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("t", "1.0.0")]),
        policy("audits", forbid("audit")),
        policy("denies", forbid("enforce")),
        policy("rates", json!({ "rates": [{ "limit": 9, "window": "PT1M" }] })),
    ];
    let bench = Bench::start(Setup::default(), entities).await;
    let (log, _guard) = Log::start();
    bench.call("a", "t", json!({})).await.failure();
    bench.call("stranger", "t", json!({})).await.error();
    let verdicts = "audits@1.0.0:audit:UNAUTHORIZED denies@1.0.0:deny:UNAUTHORIZED \
                    rates@1.0.0:undecided";
    let found: Vec<_> = log.events().iter().map(|event| event["policies"].clone()).collect();
    assert_eq!(found, [verdicts, verdicts]);
}

#[tokio::test]
async fn subscription_is_audited_when_allowed_or_denied() {
    let (bench, _) = relayed::bench(Era::Legacy, "up").await;
    bench.until_features().await;
    let session = bench.initialize("a").await;
    let (log, _guard) = Log::start();
    let uris = ["up+test://r", "up+test://closed", "other+test://r"];
    for uri in uris {
        bench.legacy(&session, "a", ("resources/subscribe", json!({ "uri": uri }))).await;
    }
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    bench.send(Ask::modern("subscriptions/listen", filter).by("a").build()).await;
    let names = ["tool", "server", "permit", "outcome", "error"];
    let told = |event: &str| {
        let events = log.events();
        let told = events.iter().filter(|told| told["event"] == event);
        let mut told: Vec<_> = told.map(|event| fields(event, &names)).collect();
        told.sort_by_key(|told| std::cmp::Reverse(told[0].to_string()));
        json!(told)
    };
    let refusal = "the upstream responded with error -32002";
    let unknown = "the tool is not registered or cannot be served";
    let expected = json!([
        ["up+test://r", "up", "allow", "ok", null],
        ["up+test://closed", "up", "allow", "upstream-failed", refusal],
        ["other+test://r", null, "deny:no-such-tool", "denied", unknown],
    ]);
    assert_eq!(told("resources/subscribe"), expected);
    assert_eq!(told("subscriptions/listen"), expected, "one for each");
}

#[tokio::test]
async fn round_of_input_is_recorded_as_input_required() {
    let (bench, _) = relayed::bench(Era::Modern, "").await;
    let (log, _guard) = Log::start();
    let ask = async |params: Value| bench.got(relayed::able("tools/call", params).build()).await;
    let first = ask(json!({ "name": "asks" })).await.result();
    let answers = json!({ "who": { "action": "accept" } });
    let params = json!({ "name": "asks", "requestState": first["requestState"],
        "inputResponses": answers });
    assert_eq!(ask(params).await.result()["resultType"], "complete");
    let outcomes: Vec<_> = log.events().iter().map(|event| event["outcome"].clone()).collect();
    assert_eq!(outcomes, ["input-required", "ok"]);
    assert!(log.events().iter().all(|event| event.get("cost").is_none()));
}

#[tokio::test]
async fn cancelled_second_round_is_recorded_as_cancelled() {
    let (bench, far_side) = relayed::bench(Era::Modern, "").await;
    let session = relayed::able_session(&bench).await;
    let (log, _guard) = Log::start();
    let ask = Ask::legacy(&session, "tools/call", json!({ "name": "asks" })).by("a");
    let mut body = bench.send(ask.build()).await.into_body().into_data_stream();
    let mut text = String::new();
    while !text.contains("elicitation/create") {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
    }
    assert_eq!(far_side.seen("tools/call").len(), 1, "the first round has a result");
    let mut cancel = Ask::legacy(&session, "", json!({})).by("a");
    cancel.body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 8 } });
    assert_eq!(bench.got(cancel.build()).await.status, 202);
    while body.next().await.is_some() {}
    let calls: Vec<_> =
        log.events().into_iter().filter(|event| event["event"] == "tools/call").collect();
    assert_eq!(fields(&calls[0], &["tool", "outcome"]), ["asks", "cancelled"]);
    assert_eq!(calls.len(), 1);
}

#[tokio::test]
async fn price_and_charge_of_call_are_recorded() {
    let budget = json!({ "name": "total", "per": "agent", "limit": "0.015", "window": "total" });
    let price = json!({ "perCall": "0.015", "failures": "free" });
    let costs = policy("costs", json!({ "price": price, "budgets": [budget] }));
    let tools = [("pay", "1.0.0"), ("fails", "1.0.0")];
    let entities = vec![
        server("up", &["pay", "fails"], &[]),
        tool("pay", "1.0.0", json!({})),
        tool("fails", "1.0.0", json!({})),
        agent("a", "1.0.0", &tools),
        costs,
    ];
    let bench = Bench::strict(entities).await;
    let (log, _guard) = Log::start();
    for tool in ["fails", "pay", "pay"] {
        bench.call("a", tool, json!({})).await.result();
    }
    let names = ["price", "price_policy", "budgets", "charged", "permit"];
    let recorded: Vec<_> =
        log.events().iter().map(|event| names.map(|n| event[n].clone())).collect();
    let paid = |charged: Value, permit: &str| {
        [json!("0.015"), json!("costs@1.0.0"), json!("costs/total"), charged, json!(permit)]
    };
    let denied = paid(Value::Null, "deny:BUDGET_EXCEEDED");
    assert_eq!(recorded, [paid(json!("0"), "allow"), paid(json!("0.015"), "allow"), denied]);
}

#[tokio::test]
async fn unknown_tool_names_are_shortened() {
    let bench = bench(ValidationMode::Error).await;
    let (log, _guard) = Log::start();
    bench.call("", &"x".repeat(5000), json!({})).await.error();
    assert_eq!(log.events()[0]["tool"].as_str().unwrap().len(), 128);
    assert!(log.text().len() < 2000);
}

#[tokio::test]
async fn violations_of_schemas_have_no_values() {
    const CARD: &str = "4539578763621486";
    let numbers = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    let numbers = json!({ "type": "object", "properties": { "all": numbers } });
    let inspection = json!({ "results": { "financial": "redact" } });
    let entities = vec![
        server("up", &["sends", "gets"], &[]),
        tool("sends", "1.0.0", json!({ "inputSchema": numbers })),
        tool("gets", "1.0.0", json!({ "outputSchema": numbers })),
        agent("a", "1.0.0", &[("sends", "1.0.0"), ("gets", "1.0.0")]),
        policy("inspect", json!({ "inspection": inspection })),
    ];
    let mut setup = Setup::default();
    setup.policy.output_validation = ValidationMode::Error;
    let bench = Bench::start(setup, entities).await;
    let (log, _guard) = Log::start();
    for tool in ["sends", "gets"] {
        let got = bench.call("a", tool, json!({ "all": { CARD: "x" } })).await;
        assert!(got.text.contains("/all/[redacted:financial]"), "{got:?}");
        assert!(!got.text.contains(CARD), "{got:?}");
    }
    assert_eq!(log.events().len(), 2);
    assert!(!log.text().contains(CARD), "{}", log.text());
}

#[tokio::test]
async fn names_of_prompts_and_resources_have_no_values() {
    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
    let entities = vec![
        server("up", &["t"], &["prompts", "resources"]),
        tool("t", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("t", "1.0.0")]),
        policy("inspect", json!({ "inspection": { "arguments": { "credential": "block" } } })),
    ];
    let (_, transport) = FarSide::start(Era::Modern).await;
    let setup = Setup { transport: Some(transport), ..Setup::default() };
    let bench = Bench::start(setup, entities).await;
    bench.until_features().await;
    let (log, _guard) = Log::start();
    let uri = format!("test://{KEY}");
    for ask in [
        Ask::modern("prompts/get", json!({ "name": KEY })),
        Ask::modern("resources/read", json!({ "uri": uri })).with("mcp-name", &uri),
    ] {
        let got = bench.got(ask.by("a").build()).await;
        assert_eq!(got.json()["error"]["data"]["reason"], "PII_DETECTED", "{got:?}");
    }
    for (method, params) in [
        ("tools/call", json!({ "name": KEY, "arguments": {} })),
        ("prompts/get", json!({ "name": format!("other.{KEY}") })),
    ] {
        bench.modern("a", method, params).await.error();
    }
    assert_eq!(log.events().len(), 4);
    assert_eq!(log.events()[2]["tool"], "[redacted:credential]");
    assert!(!log.text().contains(KEY), "{}", log.text());
}

#[tokio::test]
async fn texts_of_clients_have_no_values() {
    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
    let entities = vec![
        server("up", &["t"], &[]),
        tool("t", "1.0.0", json!({})),
        policy("inspect", json!({ "inspection": { "arguments": { "contact": "log" } } })),
    ];
    let bench = Bench::strict(entities).await;
    let (log, _guard) = Log::start();
    let mut ask = Ask::modern("tools/call", json!({ "name": "t" }));
    ask.body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] =
        json!({ "name": KEY, "version": KEY });
    bench.got(ask.by(&format!("agent {KEY}")).build()).await;
    let event = &log.events()[0];
    assert_eq!([&event["client"], &event["client_version"]], ["[redacted:credential]"; 2]);
    assert!(!log.text().contains(KEY), "{}", log.text());
}

#[tokio::test]
async fn repeated_names_of_arguments_have_no_values() {
    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let entities = vec![
        server("up", &["t"], &[]),
        tool("t", "1.0.0", json!({ "inputSchema": schema })),
        agent("a", "1.0.0", &[("t", "1.0.0")]),
        policy("inspect", json!({ "inspection": { "arguments": { "credential": "log" } } })),
    ];
    let bench = Bench::strict(entities).await;
    let (log, _guard) = Log::start();
    let ask = Ask::modern("tools/call", json!({ "name": "t", "arguments": { "NAMES": 1 } }));
    let body = ask.body.to_string().replace("\"NAMES\"", &format!("\"{KEY}\":1,\"{KEY}\""));
    let got = bench.got(ask.by("a").build_with(body)).await;
    assert!(!got.text.contains(KEY), "{got:?}");
    assert_eq!(log.events()[0]["outcome"], "invalid-input");
    assert!(!log.text().contains(KEY), "{}", log.text());
}
