//! Observability of calls: trace propagation, the admin address, a collector, and bounded metrics.

use acceptance::{Gateway, GatewayOptions, Registry};
use serde_json::{Value, json};

use crate::scripted_server::{Script, ScriptedServer, tools};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const TOKEN: &str = "an-admin-token-of-a-test";

/// An upstream with the tool `fetch` that also accepts traces as a collector.
fn upstream() -> Script {
    tools(&["fetch"], |_| Some(json!({ "content": [{ "type": "text", "text": "s3cret-result" }] })))
}

struct Scene {
    gateway: Gateway,
    upstream: ScriptedServer,
    http: reqwest::Client,
    _token: tempfile::NamedTempFile,
}

impl Scene {
    /// A gateway with one tool and an admin address with a token.
    async fn start(more: &str) -> Self {
        Self::start_in(more, &[]).await
    }

    /// Starts with these environment variables.
    async fn start_in(more: &str, variables: &[(&str, &str)]) -> Self {
        let upstream = ScriptedServer::start(upstream()).await;
        let token = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(token.path(), format!("{TOKEN}\n")).expect("written");
        let example = acceptance::root().join("examples/registry-v2.json");
        let (url, file) = (&upstream.url, token.path().display());
        let options = GatewayOptions {
            source: format!("file://{}", example.display()),
            targets: format!(
                "targets: [{{ server: fetch-server, version: 1.2.3, http: \"{url}\" }}]\n"
            ),
            runtime: None,
            more: format!("admin: 127.0.0.1:0\nadminTokenFile: {file}\n{more}"),
        };
        let gateway = Gateway::start_in(&options, (&[], variables));
        gateway.ready().await;
        gateway.upstreams_up(1).await;
        Self { gateway, upstream, http: reqwest::Client::new(), _token: token }
    }

    /// Calls a tool with these headers and this `_meta`.
    async fn call(&self, tool: &str, headers: &[(&str, &str)], meta: Value) -> Value {
        let mut all = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} });
        let members = all.as_object_mut().expect("an object");
        members.extend(meta.as_object().expect("an object").clone());
        let params = json!({ "name": tool, "arguments": { "url": "https://s3cret.example/" },
            "_meta": all });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = self
            .http
            .post(self.gateway.mcp_url())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .header("x-agent-name", "research-agent")
            .header("x-agent-version", "2.1.0");
        let request = headers.iter().fold(request, |r, (name, value)| r.header(*name, *value));
        let answer = request.body(body.to_string()).send().await.expect("it answers");
        let text = answer.text().await.expect("text");
        let data = text.lines().rev().find_map(|line| line.strip_prefix("data:"));
        serde_json::from_str(data.unwrap_or(&text)).expect("JSON")
    }

    /// The last `_meta` at the upstream, and the whole request.
    fn told(&self) -> (Value, String) {
        let seen = self.upstream.seen();
        let call = seen.lines().rfind(|line| line.contains(r#""method":"tools/call""#));
        let call: Value = serde_json::from_str(call.expect("it was called")).expect("JSON");
        (call["params"]["_meta"].clone(), seen)
    }

    fn admin(&self) -> String {
        self.gateway.admin_url()
    }

    async fn metrics(&self, address: &str) -> String {
        let answer = self.http.get(format!("{address}/metrics")).send().await;
        answer.expect("metrics").text().await.expect("text")
    }

    async fn look(&self, path: &str, token: Option<&str>) -> (u16, Value) {
        let request = self.http.get(format!("{}{path}", self.admin()));
        let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        let answer = request.send().await.expect("it answers");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("text");
        (status, serde_json::from_str(&text).unwrap_or_default())
    }
}

fn parent() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

#[tokio::test]
async fn trace_continues_with_gateway_span() {
    let scene = Scene::start("").await;
    let context = json!({ "traceparent": parent(), "tracestate": "v=1", "baggage": "user=x" });
    scene.call("fetch", &[], context).await;
    let (meta, seen) = scene.told();
    let told = meta["traceparent"].as_str().expect("a parent");
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-01"), "{told}");
    assert!(!told.contains(CALLER), "{told}");
    assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!("v=1"), &json!("user=x")));
    for header in [&format!("traceparent: {told}"), "tracestate: v=1", "baggage: user=x"] {
        assert!(seen.contains(header), "{header}: {seen}");
    }
    scene.call("fetch", &[("traceparent", &parent())], json!({})).await;
    let (meta, _) = scene.told();
    assert!(meta["traceparent"].as_str().expect("a parent").contains(TRACE), "{meta}");
    scene.call("fetch", &[("traceparent", "00-bad")], json!({})).await;
    let (meta, _) = scene.told();
    let new = meta["traceparent"].as_str().expect("a parent");
    assert!(new.len() == 55 && !new.contains(TRACE), "{new}");
}

#[tokio::test]
async fn admin_shows_call_lineage_without_values() {
    let scene = Scene::start("").await;
    scene.call("fetch", &[], json!({ "traceparent": parent() })).await;
    for token in [None, Some("an-admin-token-of-a-tesu"), Some("")] {
        assert_eq!(scene.look("/admin/traces", token).await.0, 401, "{token:?}");
    }
    let (status, trace) = scene.look(&format!("/admin/traces/{TRACE}"), Some(TOKEN)).await;
    assert_eq!(status, 200);
    let spans = trace["spans"].as_array().expect("spans");
    let [asked, onward] = spans.as_slice() else { panic!("{trace}") };
    assert_eq!((&asked["kind"], &asked["parentSpanId"]), (&json!("server"), &json!(CALLER)));
    assert_eq!((&onward["kind"], &onward["parentSpanId"]), (&json!("client"), &asked["spanId"]));
    let (meta, _) = scene.told();
    let told = meta["traceparent"].as_str().expect("a parent").to_owned();
    assert!(told.contains(onward["spanId"].as_str().expect("an id")), "{told} {onward}");
    assert_eq!(asked["name"], "tools/call fetch");
    assert_eq!(asked["agent"], "research-agent@2.1.0");
    assert_eq!(
        (&onward["server"], &onward["outcome"]),
        (&json!("fetch-server@1.2.3"), &json!("ok"))
    );
    assert_eq!(onward["revision"], 1);
    assert!(!trace.to_string().contains("s3cret"), "{trace}");
    let log = scene.gateway.process.stderr();
    assert!(log.contains(TRACE) && !log.contains("s3cret") && !log.contains(TOKEN), "{log}");

    scene.call("fetch", &[], json!({})).await;
    let (_, recent) = scene.look("/admin/traces?limit=2", Some(TOKEN)).await;
    let ids: Vec<_> = recent["traces"].as_array().expect("traces").iter().collect();
    assert_eq!((ids.len(), &ids[1]["traceId"]), (2, &json!(TRACE)), "the newest first: {recent}");
    assert_eq!(scene.look("/admin/traces/xyz", Some(TOKEN)).await.0, 400);
    assert_eq!(scene.look(&format!("/admin/traces/{CALLER}{CALLER}"), Some(TOKEN)).await.0, 404);
    let callers = format!("{}/admin/traces", scene.gateway.url());
    let answer = scene.http.get(callers).send().await.expect("it answers");
    assert_eq!(answer.status().as_u16(), 404, "callers are not served these routes");
    let rebound = scene.http.get(format!("{}/admin/traces", scene.admin()));
    let rebound = rebound.bearer_auth(TOKEN).header("host", "evil.example").send();
    assert_eq!(rebound.await.expect("it answers").status().as_u16(), 403);
}

#[tokio::test]
async fn slow_collector_delays_no_call() {
    let collector = ScriptedServer::start(upstream()).await;
    let url = collector.url.trim_end_matches("/mcp");
    let otlp = format!("{{ endpoint: \"{url}\", headers: {{ x-key: k1 }}, sampleRatio: 0 }}");
    let scene = Scene::start(&format!("tracing: {{ otlp: {otlp} }}\n")).await;
    scene.call("fetch", &[], json!({})).await;
    let unsampled = parent().replace("-01", "-00").replace(TRACE, &TRACE.replace('4', "5"));
    scene.call("fetch", &[], json!({ "traceparent": unsampled })).await;
    scene.call("fetch", &[], json!({ "traceparent": parent() })).await;
    acceptance::eventually("the collector has the spans", || async {
        collector.seen().contains(r#""resourceSpans""#)
    })
    .await;
    let seen = collector.seen();
    assert!(seen.contains("POST /v1/traces") && seen.contains("x-key: k1"), "{seen}");
    assert_eq!(seen.matches(r#""spanId""#).count(), 2, "two of the sampled call: {seen}");
    assert_eq!(seen.matches(TRACE).count(), 2, "{seen}");
    assert!(seen.contains(&format!(r#""parentSpanId":"{CALLER}""#)), "{seen}");
    assert!(!seen.contains("s3cret"), "{seen}");

    let silent = ScriptedServer::start(crate::scripted_server::silent()).await;
    let url = silent.url.trim_end_matches("/mcp");
    let scene = Scene::start(&format!("tracing: {{ otlp: {{ endpoint: \"{url}\" }} }}\n")).await;
    let started = std::time::Instant::now();
    for _ in 0..3_000 {
        scene.call("ghost", &[], json!({})).await;
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    acceptance::eventually("what is not taken is counted", || async {
        let url = format!("{}/metrics", scene.gateway.url());
        let text = reqwest::get(url).await.expect("metrics").text().await.expect("text");
        text.contains("gateway_trace_spans_dropped_total")
    })
    .await;
}

/// A collector that redirects its requests.
async fn redirecting(to: &ScriptedServer) -> ScriptedServer {
    let to = to.url.clone();
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\nconnection: close\r\n\
         content-length: 0\r\n\r\n"
    );
    ScriptedServer::start(std::sync::Arc::new(move |_, _| Some(answer.clone()))).await
}

fn traced_to(collector: &ScriptedServer) -> String {
    let url = collector.url.trim_end_matches("/mcp");
    format!("tracing: {{ otlp: {{ endpoint: \"{url}\", headers: {{ x-key: k1 }} }} }}\n")
}

#[tokio::test]
async fn unreachable_collector_is_logged_with_cause() {
    let endpoint = "tracing: { otlp: { endpoint: \"http://127.0.0.1:1\" } }\n";
    let scene = Scene::start(endpoint).await;
    scene.call("fetch", &[("traceparent", &parent())], json!({})).await;
    let parts = ["http://127.0.0.1:1/v1/traces", "Connection refused"];
    acceptance::eventually("the failure is logged", || async {
        !scene.gateway.process.logged(&parts).is_empty()
    })
    .await;
}

#[tokio::test]
async fn trace_exporter_follows_no_redirects() {
    let other = ScriptedServer::start(upstream()).await;
    let collector = redirecting(&other).await;
    let scene = Scene::start(&traced_to(&collector)).await;
    scene.call("fetch", &[], json!({})).await;
    acceptance::eventually("the spans are dropped", || async {
        let metrics = scene.metrics(&scene.gateway.url()).await;
        metrics.contains(r#"gateway_trace_spans_dropped_total{reason="collector"} 2"#)
            || !other.seen().is_empty()
    })
    .await;
    assert!(collector.seen().contains("x-key: k1"));
    assert_eq!(other.seen(), "");
}

#[tokio::test]
async fn trace_exporter_ignores_environment_proxies() {
    let (proxy, collector) =
        (ScriptedServer::start(upstream()).await, ScriptedServer::start(upstream()).await);
    let url = proxy.url.trim_end_matches("/mcp");
    let variables = [("HTTP_PROXY", url), ("http_proxy", url), ("ALL_PROXY", url)];
    let scene = Scene::start_in(&traced_to(&collector), &variables).await;
    scene.call("fetch", &[], json!({})).await;
    acceptance::eventually("the spans arrive somewhere", || async {
        !collector.seen().is_empty() || !proxy.seen().is_empty()
    })
    .await;
    assert_eq!(proxy.seen(), "");
    assert!(collector.seen().contains("POST /v1/traces"));
}

#[tokio::test]
async fn tool_metrics_are_on_admin_address_only() {
    let scene = Scene::start("").await;
    scene.call("fetch", &[], json!({})).await;
    let admin = scene.metrics(&scene.admin()).await;
    assert!(
        admin.contains(r#"gateway_calls_by_tool_total{tool="fetch",outcome="ok"} 1"#),
        "{admin}"
    );
    let public = scene.metrics(&scene.gateway.url()).await;
    assert!(!public.contains("fetch\"") && !public.contains("by_tool"), "{public}");
    let both = r#"gateway_tool_calls_total{era="modern",outcome="ok"} 1"#;
    assert!(public.contains(both) && admin.contains(both), "{public}");
}

#[tokio::test]
async fn callers_cannot_grow_metrics() {
    let scene = Scene::start("").await;
    scene.call("fetch", &[], json!({})).await;
    let metrics = || async { scene.metrics(&scene.admin()).await };
    scene.call("made-up", &[], json!({})).await;
    // Tool definitions are checked in the background, independent of callers.
    let is_of_calls = |line: &&str| line.starts_with("gateway_") && !line.contains("contract");
    let before = metrics().await.lines().filter(is_of_calls).count();
    for batch in 0..100 {
        let names: Vec<_> = (0..100).map(|i| format!("made-up-{batch}-{i}")).collect();
        let calls = names.iter().map(|name| scene.call(name, &[], json!({})));
        futures_util::future::join_all(calls).await;
    }
    let text = metrics().await;
    assert_eq!(text.lines().filter(is_of_calls).count(), before, "{text}");
    assert!(!text.contains("made-up"), "{text}");
    for series in [
        r#"gateway_calls_by_tool_total{tool="fetch",outcome="ok"} 1"#,
        r#"gateway_upstream_calls_total{server="fetch-server",outcome="ok"} 1"#,
        r#"gateway_upstream_call_duration_seconds_count{server="fetch-server"} 1"#,
        r#"gateway_response_bytes_total{tool="fetch"}"#,
        r#"gateway_call_duration_by_tool_seconds_count{tool="fetch"} 1"#,
        r#"gateway_calls_by_tool_total{tool="other",outcome="denied"} 10001"#,
    ] {
        assert!(text.contains(series), "{series}: {text}");
    }
}

/// The counters of the alerts in the documentation, each with the label and the value of a series.
fn alerted_counters() -> Vec<(String, Option<String>)> {
    let page = acceptance::root().join("docs/operate/monitor.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let conditions = rows.filter_map(|row| row.split(" | ").next());
    let metrics = conditions.flat_map(|condition| condition.split('`'));
    let mut found = Vec::new();
    for metric in metrics.filter(|text| text.contains("_total")) {
        let Some((name, label)) = metric.split_once('{') else {
            found.push((metric.to_owned(), None));
            continue;
        };
        let label = label.trim_end_matches("\"}").replace("=~", "=");
        let (label, values) = label.split_once("=\"").expect("a label");
        for value in values.split("\\|") {
            found.push((name.to_owned(), Some(format!("{label}=\"{value}\""))));
        }
    }
    found
}

#[tokio::test]
async fn counters_of_alerts_exist_at_start() {
    let auth = "auth: { clientCredentials: { tokenUrl: 'https://id.example/t', clientId: g, \
                clientSecret: s } }";
    let example = acceptance::root().join("examples/registry-v2.json");
    let target = "server: fetch-server, version: 1.2.3, http: 'https://fetch.example/mcp'";
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: format!("targets: [{{ {target}, {auth} }}]\n"),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    let exported = gateway.metrics().await + &Registry::start().metrics().await;
    let alerted = alerted_counters();
    assert!(alerted.len() > 10, "{alerted:?}");
    for (name, series) in alerted {
        let is_exported = exported.lines().any(|line| {
            let series = series.as_deref().unwrap_or_default();
            line.strip_prefix(&*name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(series))
        });
        assert!(is_exported, "{name} {series:?} in {exported}");
    }
}
