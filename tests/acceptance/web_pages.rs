//! Web pages as clients: CORS preflight requests, and readable response headers.

use acceptance::{Backend, Gateway, GatewayOptions, mcp::LEGACY, root};
use http::HeaderMap;
use serde_json::{Value, json};

const PAGE: &str = "https://app.example";

struct Site {
    gateway: Gateway,
    _backend: Backend,
    options: GatewayOptions,
}

impl Site {
    /// A gateway whose `allowedOrigins` has [`PAGE`].
    async fn start() -> Self {
        let backend = Backend::start();
        let options = GatewayOptions {
            source: format!("file://{}", root().join("examples/registry-v2.json").display()),
            targets: backend.targets(),
            runtime: None,
            more: format!("allowedOrigins: [\"{PAGE}\"]\n"),
        };
        let gateway = Gateway::start(&options);
        gateway.ready().await;
        Self { gateway, _backend: backend, options }
    }

    /// The response to the preflight request of a page that will `POST`.
    async fn preflight(&self, path: &str, origin: &str) -> HeaderMap {
        let asked = "content-type,authorization,mcp-protocol-version,mcp-param-region";
        let request = reqwest::Client::new()
            .request(reqwest::Method::OPTIONS, format!("{}{path}", self.gateway.url()))
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", asked);
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
        answer.headers().clone()
    }

    async fn post(&self, path: &str, origin: &str, message: &Value) -> reqwest::Response {
        reqwest::Client::new()
            .post(format!("{}{path}", self.gateway.url()))
            .header("origin", origin)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string())
            .send()
            .await
            .expect("an answer")
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

fn initialize() -> Value {
    let about = json!({ "name": "page", "version": "1" });
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

#[tokio::test]
async fn allowed_origin_may_call() {
    let site = Site::start().await;
    let asked = site.preflight("/mcp", PAGE).await;
    assert_eq!(text(&asked, "access-control-allow-origin"), PAGE);
    for method in ["GET", "POST", "DELETE"] {
        assert!(text(&asked, "access-control-allow-methods").contains(method), "{asked:?}");
    }
    for header in ["content-type", "authorization", "mcp-protocol-version", "mcp-param-region"] {
        assert!(text(&asked, "access-control-allow-headers").contains(header), "{asked:?}");
    }
    let opened = site.post("/mcp", PAGE, &initialize()).await;
    assert_eq!(opened.status(), 200);
    let headers = opened.headers();
    assert_eq!(text(headers, "access-control-allow-origin"), PAGE);
    let exposed = text(headers, "access-control-expose-headers");
    for header in ["mcp-session-id", "mcp-protocol-version", "www-authenticate"] {
        assert!(exposed.contains(header), "{header} in {exposed}");
    }
    let broken = site.post("/mcp", PAGE, &json!({ "jsonrpc": "1.0" })).await;
    assert_eq!(broken.status(), 400);
    assert_eq!(text(broken.headers(), "access-control-allow-origin"), PAGE, "errors are readable");
}

#[tokio::test]
async fn other_origin_may_not_call() {
    let site = Site::start().await;
    for origin in ["https://evil.example", "http://localhost:3000", "null"] {
        let asked = site.preflight("/mcp", origin).await;
        assert_eq!(text(&asked, "access-control-allow-origin"), "", "{origin}");
        let refused = site.post("/mcp", origin, &initialize()).await;
        assert_eq!(refused.status(), 403, "{origin}");
        assert_eq!(text(refused.headers(), "access-control-allow-origin"), "", "{origin}");
    }
    let other = GatewayOptions {
        more: "allowedOrigins: [\"https://other.example\"]\n".to_owned(),
        ..site.options.clone()
    };
    site.gateway.configure(&other);
    acceptance::eventually("the changed list counts", || async {
        let asked = site.preflight("/mcp", "https://other.example").await;
        text(&asked, "access-control-allow-origin") == "https://other.example"
    })
    .await;
    assert_eq!(text(&site.preflight("/mcp", PAGE).await, "access-control-allow-origin"), "");
}

#[tokio::test]
async fn trailing_slash_is_ignored() {
    let site = Site::start().await;
    let asked = site.preflight("/mcp/", PAGE).await;
    assert_eq!(text(&asked, "access-control-allow-origin"), PAGE);
    let opened = site.post("/mcp/", PAGE, &initialize()).await;
    let session = text(opened.headers(), "mcp-session-id").to_owned();
    assert!(!session.is_empty(), "{opened:?}");
    let request = |path: &str| {
        let url = format!("{}{path}", site.gateway.url());
        reqwest::Client::new().delete(url).header("mcp-session-id", &session).send()
    };
    assert_eq!(request("/mcp/").await.expect("an answer").status(), 204);
    assert_eq!(request("/mcp").await.expect("an answer").status(), 404, "the session has ended");
}

#[tokio::test]
async fn response_and_audit_have_the_request_id() {
    let site = Site::start().await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "no_such_tool" } });
    let answer = site.post("/mcp", PAGE, &call).await;
    let id = text(answer.headers(), "x-request-id").to_owned();
    assert_eq!(id.len(), 36, "{answer:?}");
    acceptance::eventually("the audit has it", || async {
        site.gateway.process.stderr().lines().any(|line| line.contains(&id))
    })
    .await;
}
