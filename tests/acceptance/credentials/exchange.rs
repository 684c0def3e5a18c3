//! Tokens in exchange for those of callers: each caller's own, and never the caller's.

use acceptance::{ModernClient, eventually, mcp::LEGACY};
use serde_json::{Value, json};

use super::{
    SECRET, assert_kept, auth, bearing,
    far_side::{Asked, Tokens, Upstream, refusal},
    fetch, gateway, is_up,
};
use crate::{gateway_identity::issuer::Issuer, liar::json_answer};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Gives each subject a token that says whose it is, and the gateway one of its own.
fn by_name(asked: &Asked, number: usize) -> String {
    let whose = match asked.says("grant_type") {
        GRANT => subject(asked.says("subject_token")),
        _ => "gateway".to_owned(),
    };
    json_answer(&json!({ "access_token": format!("for-{whose}-{number}"),
        "token_type": "Bearer", "expires_in": 600, "issued_token_type": ACCESS_TOKEN }))
}

/// The `sub` of a token.
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

/// How many tokens were given for callers.
fn exchanges(tokens: &Tokens) -> usize {
    tokens.asked().iter().filter(|asked| asked.says("grant_type") == GRANT).count()
}

#[tokio::test]
async fn each_caller_is_exchanged_and_its_token_goes_nowhere_else() {
    let (upstream, tokens) = (Upstream::modern().await, Tokens::start().await);
    let issuer = Issuer::start().await;
    tokens.behave(Box::new(|asked, number| Some(by_name(asked, number))));
    let more = "audience: far, scopes: docs:read";
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, more), &identity(&issuer));
    is_up(&gateway).await;
    let (ann, bob) = (issuer.but("sub", json!("ann")), issuer.but("sub", json!("bob")));
    for _ in 0..3 {
        for (token, name) in [(&ann, "ann"), (&bob, "bob")] {
            assert_eq!(fetch(&bearing(&gateway, token)).await.text(), "fetched");
            let shown = upstream.last_call().authorization;
            assert!(shown.starts_with(&format!("Bearer for-{name}-")), "{name}: {shown}");
        }
    }
    assert_eq!(exchanges(&tokens), 2, "one each");
    // The same caller with another token: what was given for the first one is not for this one.
    let renewed = issuer.but("iat", json!(0));
    let again = issuer.but("iat", json!(1));
    for token in [&renewed, &again] {
        assert_eq!(fetch(&bearing(&gateway, token)).await.text(), "fetched");
    }
    assert_eq!(exchanges(&tokens), 4);

    let asked = tokens.asked();
    let exchanged = asked.iter().find(|asked| asked.says("subject_token") == ann);
    let exchanged = exchanged.expect("ann's token was exchanged");
    for (name, value) in [
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", ACCESS_TOKEN),
        ("audience", "far"),
        ("scope", "docs:read"),
        ("actor_token", ""),
    ] {
        assert_eq!(exchanged.says(name), value);
    }
    // What the gateway does in nobody's name, it does in its own.
    let listed = upstream.got_of("tools/list");
    assert!(listed.iter().all(|got| got.authorization.contains("for-gateway-")), "{listed:?}");
    let secrets: Vec<_> = [&ann, &bob, &renewed, &again]
        .into_iter()
        .flat_map(|token| [token.as_str(), token.rsplit('.').next().expect("a signature")])
        .collect();
    upstream.assert_never_saw(&secrets);
    upstream.assert_never_saw(&[SECRET]);
    assert_kept(&gateway, &[secrets, vec![SECRET, "for-ann", "for-gateway"]].concat()).await;
}

#[tokio::test]
async fn who_shows_no_token_or_one_that_is_not_exchanged_is_told_so() {
    let (upstream, tokens) = (Upstream::modern().await, Tokens::start().await);
    let issuer = Issuer::start().await;
    tokens.behave(Box::new(|asked, number| match asked.says("grant_type") {
        GRANT if subject(asked.says("subject_token")) == "echo" => {
            let own = asked.says("subject_token");
            Some(json_answer(&json!({ "access_token": own, "token_type": "Bearer" })))
        }
        GRANT => Some(refusal("400 Bad Request", "invalid_grant")),
        _ => Some(by_name(asked, number)),
    }));
    let key = "27541a7f468cc290d0991bcc4c27f2433319fdcceb7267b7d837119af9c6436e";
    let identity = format!(
        "identity: {{ jwt: {}, apiKeys: [{{ agent: research-agent, sha256: {key} }}] }}\n",
        issuer.block("")
    );
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, ""), &identity);
    is_up(&gateway).await;
    let nobody = ModernClient::anonymous(&gateway.mcp_url());
    let key = bearing(&gateway, "the-key-of-the-research-agent");
    let nameless = bearing(&gateway, &issuer.but("sub", Value::Null));
    for (who, client) in [("nobody", nobody), ("a key", key), ("no `sub`", nameless)] {
        let answer = fetch(&client).await;
        assert!(answer.is_tool_error(), "{who}: {answer:?}");
        assert!(answer.text().contains("requires a caller with a token"), "{who}: {answer:?}");
    }
    assert_eq!(exchanges(&tokens), 0);
    let refused = fetch(&bearing(&gateway, &issuer.but("sub", json!("eve")))).await;
    assert!(refused.is_tool_error() && refused.text().contains("invalid_grant"), "{refused:?}");
    let echo = issuer.but("sub", json!("echo"));
    let echoed = fetch(&bearing(&gateway, &echo)).await;
    assert!(echoed.is_tool_error() && echoed.text().contains("nothing was done"), "{echoed:?}");
    assert!(upstream.got_of("tools/call").is_empty());
    upstream.assert_never_saw(&[&echo]);
    let log = gateway.process.stderr();
    assert!(log.contains("it is the caller's own token"), "{log}");
    assert!(log.contains("outcome=\"denied\""), "{log}");
    assert_kept(&gateway, &[&echo, SECRET]).await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_exchanged_once_more_for_that_caller_alone() {
    let (upstream, tokens) = (Upstream::modern().await, Tokens::start().await);
    let issuer = Issuer::start().await;
    tokens.behave(Box::new(|asked, number| Some(by_name(asked, number))));
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, ""), &identity(&issuer));
    is_up(&gateway).await;
    let ann = bearing(&gateway, &issuer.but("sub", json!("ann")));
    let bob = bearing(&gateway, &issuer.but("sub", json!("bob")));
    let shown = async |client: &ModernClient| {
        assert_eq!(fetch(client).await.text(), "fetched");
        upstream.last_call().authorization
    };
    let (of_ann, of_bob) = (shown(&ann).await, shown(&bob).await);
    let next = format!("Bearer for-ann-{}", tokens.asked().len() + 1);
    upstream.let_call(&[&next, &of_bob]);
    assert_ne!(of_ann, next);
    assert_eq!(shown(&ann).await, next);
    assert_eq!(shown(&bob).await, of_bob);
    assert_eq!(exchanges(&tokens), 3);
}

/// A client of the older era with a session.
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
async fn sessions_of_an_upstream_are_one_callers_each() {
    let (upstream, tokens) = (Upstream::legacy().await, Tokens::start().await);
    let issuer = Issuer::start().await;
    tokens.behave(Box::new(|asked, number| Some(by_name(asked, number))));
    let gateway = gateway(&upstream, &auth("tokenExchange", &tokens, ""), &identity(&issuer));
    is_up(&gateway).await;
    let token = |name: &str| issuer.but("sub", json!(name));
    let (ann, bob) = (token("ann"), token("bob"));
    for _ in 0..2 {
        for stateless in [&ann, &bob] {
            assert_eq!(fetch(&bearing(&gateway, stateless)).await.text(), "fetched");
        }
    }
    let with_session = SessionClient::open(&gateway.mcp_url(), &ann).await;
    with_session.fetch().await;
    // The caller's token is renewed, its session goes on.
    let mut claims = Issuer::claims();
    (claims["sub"], claims["iat"]) = (json!("ann"), json!(1));
    let renewed = SessionClient { token: issuer.sign("k1", &claims), ..with_session };
    renewed.fetch().await;
    // Somebody else who knows the session's id is nobody there.
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
        upstream.got().iter().any(|got| got.method.is_empty() && got.authorization.contains("ann"))
    })
    .await;

    let whose = |authorization: &str| {
        let name = authorization.strip_prefix("Bearer for-").expect("a token of ours");
        name.rsplit_once('-').expect("a number").0.to_owned()
    };
    let mut owners = std::collections::BTreeMap::new();
    for got in upstream.got().iter().filter(|got| !got.session.is_empty()) {
        let owner = owners.entry(got.session.clone()).or_insert_with(|| whose(&got.authorization));
        assert_eq!(*owner, whose(&got.authorization), "{got:?}");
    }
    let mut of_callers: Vec<_> = owners.values().filter(|whose| *whose != "gateway").collect();
    of_callers.sort();
    assert_eq!(of_callers, ["ann", "ann", "bob"], "{owners:?}");
    assert_eq!(upstream.got_of("tools/call").len(), 6);
    upstream.assert_never_saw(&[&ann, &bob, &renewed.token, SECRET]);
    assert_kept(&gateway, &[&ann, &bob, &renewed.token, SECRET, "for-ann"]).await;
}
