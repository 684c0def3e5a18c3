//! Exchange of caller tokens (RFC 8693): each caller has its own token, and its original token is
//! never forwarded.

use acceptance::{ModernClient, eventually, mcp::LEGACY};
use serde_json::{Value, json};

use super::{
    SECRET, assert_kept, auth, fetch, gateway, is_up,
    upstream::{TokenEndpoint, TokenRequest, Upstream, token_error},
    with_token,
};
use crate::{gateway_identity::issuer::Issuer, scripted_server::json_answer};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Issues a token that names its subject, and another one to the gateway itself.
fn by_name(request: &TokenRequest, number: usize) -> String {
    let whose = match request.field("grant_type") {
        GRANT => subject(request.field("subject_token")),
        _ => "gateway".to_owned(),
    };
    json_answer(&json!({ "access_token": format!("for-{whose}-{number}"),
        "token_type": "Bearer", "expires_in": 600, "issued_token_type": ACCESS_TOKEN }))
}

fn subject(token: &str) -> String {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    let claims = token.split('.').nth(1).expect("a token");
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).expect("base64");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    claims["sub"].as_str().expect("a subject").to_owned()
}

fn identity(issuer: &Issuer) -> String {
    format!("identity: {{ jwt: {} }}\n", issuer.block(""))
}

/// The number of tokens issued by exchange.
fn exchanges(tokens: &TokenEndpoint) -> usize {
    tokens.requests().iter().filter(|request| request.field("grant_type") == GRANT).count()
}

#[tokio::test]
async fn caller_token_is_exchanged_and_never_forwarded() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    let issuer = Issuer::start().await;
    tokens.set_behavior(Box::new(|request, number| Some(by_name(request, number))));
    let more = "audience: far, scopes: docs:read";
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, more), &identity(&issuer));
    is_up(&gateway).await;
    let (ann, bob) =
        (issuer.token_with("sub", json!("ann")), issuer.token_with("sub", json!("bob")));
    for _ in 0..3 {
        for (token, name) in [(&ann, "ann"), (&bob, "bob")] {
            assert_eq!(fetch(&with_token(&gateway, token)).await.text(), "fetched");
            let shown = upstream.last_call().authorization;
            assert!(shown.starts_with(&format!("Bearer for-{name}-")), "{name}: {shown}");
        }
    }
    assert_eq!(exchanges(&tokens), 2, "one each");
    // A token of the same caller with other claims is exchanged again.
    let renewed = issuer.token_with("iat", json!(0));
    let again = issuer.token_with("iat", json!(1));
    for token in [&renewed, &again] {
        assert_eq!(fetch(&with_token(&gateway, token)).await.text(), "fetched");
    }
    assert_eq!(exchanges(&tokens), 4);

    let requests = tokens.requests();
    let exchanged = requests.iter().find(|request| request.field("subject_token") == ann);
    let exchanged = exchanged.expect("ann's token was exchanged");
    for (name, value) in [
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", ACCESS_TOKEN),
        ("audience", "far"),
        ("scope", "docs:read"),
        ("actor_token", ""),
    ] {
        assert_eq!(exchanged.field(name), value);
    }
    // The gateway uses its own token for requests without a caller.
    let listed = upstream.received_of("tools/list");
    assert!(
        listed.iter().all(|received| received.authorization.contains("for-gateway-")),
        "{listed:?}"
    );
    let secrets: Vec<_> = [&ann, &bob, &renewed, &again]
        .into_iter()
        .flat_map(|token| [token.as_str(), token.rsplit('.').next().expect("a signature")])
        .collect();
    upstream.assert_never_saw(&secrets);
    upstream.assert_never_saw(&[SECRET]);
    assert_kept(&gateway, &[secrets, vec![SECRET, "for-ann", "for-gateway"]].concat()).await;
}

#[tokio::test]
async fn caller_without_exchangeable_token_is_rejected() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    let issuer = Issuer::start().await;
    tokens.set_behavior(Box::new(|request, number| match request.field("grant_type") {
        GRANT if subject(request.field("subject_token")) == "echo" => {
            let own = request.field("subject_token");
            Some(json_answer(&json!({ "access_token": own, "token_type": "Bearer" })))
        }
        GRANT => Some(token_error("400 Bad Request", "invalid_grant")),
        _ => Some(by_name(request, number)),
    }));
    let key = "27541a7f468cc290d0991bcc4c27f2433319fdcceb7267b7d837119af9c6436e";
    let identity = format!(
        "identity: {{ jwt: {}, apiKeys: [{{ agent: research-agent, sha256: {key} }}] }}\n",
        issuer.block("")
    );
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, ""), &identity);
    is_up(&gateway).await;
    let anonymous = ModernClient::anonymous(&gateway.mcp_url());
    let key = with_token(&gateway, "the-key-of-the-research-agent");
    let nameless = with_token(&gateway, &issuer.token_with("sub", Value::Null));
    for (who, client) in [("anonymous", anonymous), ("a key", key), ("no `sub`", nameless)] {
        let answer = fetch(&client).await;
        assert!(answer.is_tool_error(), "{who}: {answer:?}");
    }
    assert_eq!(gateway.audited("denied").len(), 3);
    assert_eq!(exchanges(&tokens), 0);
    let refused = fetch(&with_token(&gateway, &issuer.token_with("sub", json!("eve")))).await;
    assert!(refused.is_tool_error() && refused.text().contains("invalid_grant"), "{refused:?}");
    let echo = issuer.token_with("sub", json!("echo"));
    let echoed = fetch(&with_token(&gateway, &echo)).await;
    assert!(echoed.is_tool_error(), "{echoed:?}");
    assert!(upstream.received_of("tools/call").is_empty());
    upstream.assert_never_saw(&[&echo]);
    assert_kept(&gateway, &[&echo, SECRET]).await;
}

#[tokio::test]
async fn rejected_exchanged_token_is_renewed_once_per_caller() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    let issuer = Issuer::start().await;
    tokens.set_behavior(Box::new(|request, number| Some(by_name(request, number))));
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, ""), &identity(&issuer));
    is_up(&gateway).await;
    let ann = with_token(&gateway, &issuer.token_with("sub", json!("ann")));
    let bob = with_token(&gateway, &issuer.token_with("sub", json!("bob")));
    let shown = async |client: &ModernClient| {
        assert_eq!(fetch(client).await.text(), "fetched");
        upstream.last_call().authorization
    };
    let (of_ann, of_bob) = (shown(&ann).await, shown(&bob).await);
    let next = format!("Bearer for-ann-{}", tokens.requests().len() + 1);
    upstream.accept_calls_only(&[&next, &of_bob]);
    assert_ne!(of_ann, next);
    assert_eq!(shown(&ann).await, next);
    assert_eq!(shown(&bob).await, of_bob);
    assert_eq!(exchanges(&tokens), 3);
}

/// A legacy client with a session.
struct SessionClient {
    http: reqwest::Client,
    url: String,
    token: String,
    session: String,
}

impl SessionClient {
    async fn open(url: &str, token: &str) -> Self {
        let (http, url, token) = (reqwest::Client::new(), url.to_owned(), token.to_owned());
        let mut client = Self { http, url, token, session: String::new() };
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" } });
        let answer = client.post("initialize", params).await;
        let session = answer.headers()["mcp-session-id"].to_str().expect("text");
        session.clone_into(&mut client.session);
        client
    }

    async fn post(&self, method: &str, params: Value) -> reqwest::Response {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .bearer_auth(&self.token);
        if !self.session.is_empty() {
            request = request
                .header("mcp-session-id", &self.session)
                .header("mcp-protocol-version", LEGACY);
        }
        request.body(body.to_string()).send().await.expect("an answer")
    }

    async fn fetch(&self) {
        let call = json!({ "name": "fetch", "arguments": { "url": "https://example.com/" } });
        let text = self.post("tools/call", call).await.text().await.expect("text");
        assert!(text.contains("fetched"), "{text}");
    }

    async fn end(&self) {
        let request = self.http.delete(&self.url).bearer_auth(&self.token);
        let request =
            request.header("mcp-session-id", &self.session).header("mcp-protocol-version", LEGACY);
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }
}

#[tokio::test]
async fn upstream_sessions_belong_to_one_caller() {
    let (upstream, tokens) = (Upstream::legacy().await, TokenEndpoint::start().await);
    let issuer = Issuer::start().await;
    tokens.set_behavior(Box::new(|request, number| Some(by_name(request, number))));
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, ""), &identity(&issuer));
    is_up(&gateway).await;
    let token = |name: &str| issuer.token_with("sub", json!(name));
    let (ann, bob) = (token("ann"), token("bob"));
    for _ in 0..2 {
        for stateless in [&ann, &bob] {
            assert_eq!(fetch(&with_token(&gateway, stateless)).await.text(), "fetched");
        }
    }
    let with_session = SessionClient::open(&gateway.mcp_url(), &ann).await;
    with_session.fetch().await;
    // The session continues with a renewed token of the same caller.
    let mut claims = Issuer::claims();
    (claims["sub"], claims["iat"]) = (json!("ann"), json!(1));
    let renewed = SessionClient { token: issuer.sign("k1", &claims), ..with_session };
    renewed.fetch().await;
    // Another caller cannot use the session id.
    let stolen = SessionClient {
        token: bob.clone(),
        http: reqwest::Client::new(),
        url: renewed.url.clone(),
        session: renewed.session.clone(),
    };
    let call = json!({ "name": "fetch", "arguments": { "url": "https://example.com/" } });
    assert_eq!(stolen.post("tools/call", call).await.status(), 404);
    renewed.end().await;
    eventually("the session ends upstream too", || async {
        upstream
            .received()
            .iter()
            .any(|received| received.method.is_empty() && received.authorization.contains("ann"))
    })
    .await;

    let whose = |authorization: &str| {
        let name = authorization.strip_prefix("Bearer for-").expect("a token of ours");
        name.rsplit_once('-').expect("a number").0.to_owned()
    };
    let mut owners = std::collections::BTreeMap::new();
    for received in upstream.received().iter().filter(|received| !received.session.is_empty()) {
        let owner = owners
            .entry(received.session.clone())
            .or_insert_with(|| whose(&received.authorization));
        assert_eq!(*owner, whose(&received.authorization), "{received:?}");
    }
    let mut of_callers: Vec<_> = owners.values().filter(|whose| *whose != "gateway").collect();
    of_callers.sort();
    assert_eq!(of_callers, ["ann", "ann", "bob"], "{owners:?}");
    assert_eq!(upstream.received_of("tools/call").len(), 6);
    upstream.assert_never_saw(&[&ann, &bob, &renewed.token, SECRET]);
    assert_kept(&gateway, &[&ann, &bob, &renewed.token, SECRET, "for-ann"]).await;
}
