//! Pages for sign-in and approvals, with an identity provider.

mod browser;
mod provider;

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use approval::{Binding, Demand, Principal as Account, Request, RequestId, State, Wanted};
use registry_core::{
    Digest, Document, Kind,
    entity::policy::{Approval, Approver},
};
use registry_proto::v1::{
    self, approval_service_client::ApprovalServiceClient, request_approval_response::Outcome,
};
use registry_server::{
    access::{NewToken, Principal, Role, Roles, Scopes},
    app::tokens,
    clock::{Clock as _, SystemClock},
    store::{DatabaseUrl, Store},
};
use reqwest::Url;
use serde_json::json;

use self::{
    browser::{Answer, Browser, PUBLIC},
    provider::{CLIENT, Provider, SECRET},
};
use crate::harness::{TestServer, batch, register};

const SESSION: &str = "__Host-registry-session";
const SIGN_IN: &str = "__Host-registry-sign-in";

/// The policy that the requests name. Its document demands nothing: registries reject demands that gateways ignore.
static POLICY: LazyLock<Document> = LazyLock::new(|| {
    let document = json!({ "name": "payments", "version": "1.0.0", "price": { "perCall": "1" } });
    Document::parse(Kind::Policy, &document).unwrap()
});
/// The definition that the requests name.
static DEFINITION: LazyLock<Document> = LazyLock::new(|| {
    let document = json!({ "name": "Pay", "version": "1.0.0", "schema": { "type": "object" } });
    Document::parse(Kind::Schema, &document).unwrap()
});

struct Site {
    server: TestServer,
    store: Store,
    provider: Arc<Provider>,
    /// The API token of a gateway.
    gateway: String,
}

impl Site {
    async fn start() -> Self {
        Self::at(PUBLIC).await
    }

    /// Starts with another public URL.
    async fn at(public: &str) -> Self {
        let open = TestServer::start().await;
        let entities = [&*POLICY, &*DEFINITION].map(|document| register(document.entity().into()));
        let mut client = open.registry().await;
        assert!(client.apply_changes(batch(entities)).await.unwrap().into_inner().committed);
        drop(client);
        let directory = open.stop().await;
        let secret = directory.path().join("client-secret");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let provider = Provider::start().await;
        let keys = format!("{}/jwks", provider.issuer);
        let flags = [
            ["--oidc-issuer", &provider.issuer],
            ["--oidc-audience", "registry"],
            ["--oidc-jwks-url", &keys],
            ["--public-url", public],
            ["--sign-in-client-id", CLIENT],
            ["--sign-in-client-secret-file", secret.to_str().unwrap()],
        ];
        let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
        let server = TestServer::on(directory, flags.as_flattened()).await;
        let store = Store::open(&url).await.unwrap();
        let (gateway, _) = create_token(&store, "gateway", Role::Gateway).await;
        Self { server, store, provider, gateway }
    }

    fn browser(&self) -> Browser {
        Browser::new(self.server.address)
    }

    /// An API token of a person, and its id.
    async fn token(&self, name: &str) -> (String, String) {
        create_token(&self.store, name, Role::Approver).await
    }

    /// Requests an approval as a gateway.
    async fn request(&self, id: u128, change: impl FnOnce(&mut Wanted)) -> RequestId {
        let mut wanted = wanted(id);
        change(&mut wanted);
        let mut request = tonic::Request::new(message(&wanted));
        let credential = format!("Bearer {}", self.gateway).parse().unwrap();
        request.metadata_mut().insert("authorization", credential);
        let mut client = ApprovalServiceClient::new(self.server.channel().await);
        let answer = client.request_approval(request).await.unwrap().into_inner();
        assert!(matches!(answer.outcome, Some(Outcome::Approval(_))), "{answer:?}");
        wanted.id
    }

    async fn stored(&self, id: RequestId) -> Request {
        self.store.approval(id).await.unwrap().unwrap()
    }

    /// Sends the browser to the provider, and returns the path and query of the redirect back.
    async fn authorize(&self, browser: &mut Browser, path: &str) -> String {
        let begun = browser.get(path).await;
        assert_eq!(begun.status, 303);
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let answer = client.build().unwrap().get(begun.header("location")).send().await.unwrap();
        assert_eq!(answer.status(), 302);
        let redirect: Url = answer.headers()["location"].to_str().unwrap().parse().unwrap();
        assert_eq!(redirect.origin().ascii_serialization(), PUBLIC);
        format!("{}?{}", redirect.path(), redirect.query().unwrap())
    }

    /// Signs in with the provider.
    async fn signed_in(&self) -> Browser {
        let mut browser = self.browser();
        let redirect = self.authorize(&mut browser, "/sign-in/oidc").await;
        assert_eq!(browser.get(&redirect).await.status, 200);
        assert!(browser.cookies.contains_key(SESSION));
        browser
    }

    /// Completes a sign-in with another claim in the ID token.
    async fn sign_in_with(&self, claim: &str, value: serde_json::Value) -> Answer {
        self.provider.change(claim, value);
        let mut browser = self.browser();
        let redirect = self.authorize(&mut browser, "/sign-in/oidc").await;
        let answer = browser.get(&redirect).await;
        self.provider.restore();
        assert!(answer.status == 200 || !browser.cookies.contains_key(SESSION));
        answer
    }
}

async fn create_token(store: &Store, name: &str, role: Role) -> (String, String) {
    let wanted = NewToken {
        name: name.to_owned(),
        team: "finance".to_owned(),
        roles: Roles::new(&[role]),
        scopes: Scopes::default(),
        expires_at: None,
    };
    let by = Principal::local("root");
    let (secret, stored) = tokens::create(store, &by, wanted, SystemClock.now()).await.unwrap();
    (secret.expose().to_owned(), stored.id)
}

fn message(wanted: &Wanted) -> v1::RequestApprovalRequest {
    let Wanted { id, binding, preview, .. } = wanted.clone();
    let Account { issuer, subject, person } = binding.caller;
    let demands = binding.demands.into_iter().map(|demand| v1::ApprovalDemand {
        policy: demand.policy,
        digest: demand.digest.to_string(),
        rule: Some((&demand.rule).into()),
    });
    let call = v1::ApprovedCall {
        caller: Some(v1::ApprovalAccount { issuer, subject, person: person.unwrap_or_default() }),
        agent: binding.agent.unwrap_or_default(),
        resource: binding.resource,
        version: binding.version,
        definition_digest: binding.definition.to_string(),
        arguments_digest: binding.arguments.to_string(),
        demands: demands.collect(),
    };
    let id = id.to_string();
    v1::RequestApprovalRequest { id, call: Some(call), preview, ..Default::default() }
}

fn wanted(id: u128) -> Wanted {
    let rule = Approval::default();
    let (policy, digest) = ("payments@1.0.0".to_owned(), POLICY.digest());
    let caller = Account {
        issuer: "https://callers.example".to_owned(),
        subject: format!("caller-{id}"),
        person: None,
    };
    Wanted {
        id: RequestId::new(id),
        binding: Binding {
            caller,
            agent: None,
            resource: "schema/Pay".to_owned(),
            version: "1.0.0".to_owned(),
            definition: DEFINITION.digest(),
            arguments: Digest::compute(b"arguments"),
            demands: vec![Demand { policy, digest, rule }],
        },
        owners: BTreeSet::new(),
        preview: r#"{"amount":10}"#.to_owned(),
    }
}

/// The path of a request.
fn page(id: RequestId) -> String {
    format!("/approvals/{id}")
}

/// The redirect with another value of a parameter.
fn with_parameter(redirect: &str, name: &str, value: &str) -> String {
    let mut url: Url = format!("{PUBLIC}{redirect}").parse().unwrap();
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let others = pairs.iter().filter(|(other, _)| other != name);
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, value);
    format!("{}?{}", url.path(), url.query().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn person_signs_in_and_approves() {
    let site = Site::start().await;
    let id = site.request(1, |_| {}).await;
    let mut browser = site.browser();
    let asked = browser.get(&page(id)).await;
    assert_eq!(asked.status, 303);
    assert_eq!(asked.header("location"), format!("/sign-in?approval={id}"));
    let ways = browser.get(asked.header("location")).await;
    assert!(ways.body.contains(&format!("href=\"/sign-in/oidc?approval={id}\"")));
    let redirect = site.authorize(&mut browser, &format!("/sign-in/oidc?approval={id}")).await;
    let done = browser.get(&redirect).await;
    assert_eq!(done.status, 200);
    assert!(done.body.contains(&format!("content=\"0; url={}\"", page(id))));
    let cookies: Vec<_> = done.headers.get_all("set-cookie").iter().collect();
    let session = cookies[0].to_str().unwrap();
    let value = &browser.cookies[SESSION];
    assert_eq!(session, format!("{SESSION}={value}; Path=/; HttpOnly; SameSite=Strict; Secure"));
    assert!(!browser.cookies.contains_key(SIGN_IN));
    let shown = browser.get(&page(id)).await;
    let token = shown.form_tokens().pop().unwrap();
    let decided = browser.post(&page(id), &[("form", &token), ("choice", "approve")]).await;
    assert_eq!(decided.status, 303);
    assert_eq!(decided.header("location"), page(id));
    let request = site.stored(id).await;
    assert_eq!(request.state, State::Approved);
    let by = &request.decisions[0].by;
    assert_eq!((&*by.issuer, &*by.subject), (&*site.provider.issuer, "4711"));
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_without_own_sign_in_is_rejected() {
    let site = Site::start().await;
    let mut browser = site.browser();
    let redirect = site.authorize(&mut browser, "/sign-in/oidc").await;
    let other = with_parameter(&redirect, "state", &"A".repeat(43));
    assert_eq!(browser.get(&other).await.status, 400, "another state");
    assert_eq!(site.browser().get(&redirect).await.status, 400, "another browser");
    let mut victim = site.browser();
    site.authorize(&mut victim, "/sign-in/oidc").await;
    assert_eq!(victim.get(&redirect).await.status, 400, "the sign-in of another browser");
    let repeated = format!("{redirect}&state=x");
    assert_eq!(browser.get(&repeated).await.status, 400, "two states");
    assert_eq!(site.provider.exchanges(), 0);
    assert_eq!(browser.get(&redirect).await.status, 200, "the own sign-in is still pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_and_state_are_used_once() {
    let site = Site::start().await;
    let mut browser = site.browser();
    let redirect = site.authorize(&mut browser, "/sign-in/oidc").await;
    let cookie = browser.cookies[SIGN_IN].clone();
    assert_eq!(browser.get(&redirect).await.status, 200);
    browser.cookies.insert(SIGN_IN.to_owned(), cookie);
    assert_eq!(browser.get(&redirect).await.status, 400, "a used state");
    let (_, code) = redirect.split_once("code=").unwrap();
    let code = code.split('&').next().unwrap();
    let next = site.authorize(&mut browser, "/sign-in/oidc").await;
    let replayed = with_parameter(&next, "code", code);
    assert_eq!(browser.get(&replayed).await.status, 502, "a used code");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_other_challenge_is_rejected() {
    let site = Site::start().await;
    let mut attacker = site.browser();
    let stolen = site.authorize(&mut attacker, "/sign-in/oidc").await;
    let (_, code) = stolen.split_once("code=").unwrap();
    let code = code.split('&').next().unwrap();
    let mut browser = site.browser();
    let redirect = site.authorize(&mut browser, "/sign-in/oidc").await;
    let injected = with_parameter(&redirect, "code", code);
    assert_eq!(browser.get(&injected).await.status, 502);
    assert_eq!(site.provider.exchanges(), 1, "the provider has rejected the verifier");
    assert!(!browser.cookies.contains_key(SESSION));
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_of_other_issuer_is_rejected() {
    let site = Site::start().await;
    for (name, value) in [("iss", "https://other.example"), ("error", "access_denied")] {
        let mut browser = site.browser();
        let redirect = site.authorize(&mut browser, "/sign-in/oidc").await;
        let answer = browser.get(&with_parameter(&redirect, name, value)).await;
        assert_eq!(answer.status, 502, "{name}");
    }
    let mut browser = site.browser();
    let redirect = site.authorize(&mut browser, "/sign-in/oidc").await;
    let (unnamed, _) = redirect.split_once("&iss=").unwrap();
    assert_eq!(browser.get(unnamed).await.status, 502, "no issuer");
    assert_eq!(site.provider.exchanges(), 0, "the code stays here");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_id_token_starts_no_session() {
    let site = Site::start().await;
    let now = SystemClock.now().as_millis() / 1_000;
    for (claim, value) in [
        ("nonce", json!("other")),
        ("nonce", json!(null)),
        ("iss", json!("https://other.example")),
        ("aud", json!("registry")),
        ("aud", json!([CLIENT, "other"])),
        ("azp", json!("other")),
        ("exp", json!(now - 60)),
        ("sub", json!("")),
        ("sub", json!(7)),
    ] {
        let answer = site.sign_in_with(claim, value.clone()).await;
        assert_eq!(answer.status, 502, "{claim}: {value}");
    }
    assert_eq!(site.sign_in_with("azp", json!(CLIENT)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn api_token_is_exchanged_for_session() {
    let site = Site::start().await;
    let (token, id) = site.token("ann").await;
    let mut browser = site.browser();
    assert_eq!(browser.post("/sign-in/token", &[("token", &token[1..])]).await.status, 401);
    let foreign = browser.post_from("/sign-in/token", &[("token", &token)], &[]).await;
    assert_eq!(foreign.status, 403, "a form of another site");
    assert!(browser.cookies.is_empty());
    let answer = browser.post("/sign-in/token", &[("token", &token)]).await;
    assert_eq!(answer.status, 200);
    assert!(!answer.body.contains(&token) && browser.cookies[SESSION] != token);
    assert_eq!(browser.get("/approvals").await.status, 200);
    tokens::revoke(&site.store, &Principal::local("root"), &id, SystemClock.now()).await.unwrap();
    crate::harness::eventually("the session has ended", || async {
        browser.clone().get("/approvals").await.status == 303
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_never_keeps_session_id() {
    let site = Site::start().await;
    let (token, _) = site.token("ann").await;
    let mut browser = site.browser();
    browser.cookies.insert(SESSION.to_owned(), "chosen".to_owned());
    browser.post("/sign-in/token", &[("token", &token)]).await;
    let first = browser.clone();
    assert_ne!(first.cookies[SESSION], "chosen");
    browser.post("/sign-in/token", &[("token", &token)]).await;
    assert_ne!(browser.cookies[SESSION], first.cookies[SESSION]);
    assert_eq!(first.clone().get("/approvals").await.status, 303, "the earlier session");
    assert_eq!(browser.get("/approvals").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_ends_session() {
    let site = Site::start().await;
    let mut browser = site.signed_in().await;
    let before = browser.clone();
    let token = browser.get("/approvals").await.form_tokens().remove(0);
    assert_eq!(browser.post("/sign-out", &[("form", "x")]).await.status, 403);
    assert_eq!(browser.post("/sign-out", &[("form", &token)]).await.status, 303);
    assert!(!browser.cookies.contains_key(SESSION));
    assert_eq!(before.clone().get("/approvals").await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_are_rejected() {
    let site = Site::start().await;
    let id = site.request(1, |_| {}).await;
    let mut browser = site.signed_in().await;
    let token = browser.get(&page(id)).await.form_tokens().pop().unwrap();
    let fields = [("form", &*token), ("choice", "approve")];
    let selected = format!("{id}.{token}");
    let batch = [("request", &*selected), ("choice", "approve")];
    for origins in [
        &[][..],
        &["null"],
        &["https://other.example"],
        &["http://registry.example"],
        &["https://registry.example:8443"],
        &["https://registry.example.other.example"],
        &[PUBLIC, "https://other.example"],
    ] {
        let answer = browser.post_from(&page(id), &fields, origins).await;
        assert_eq!(answer.status, 403, "{origins:?}");
        assert_eq!(browser.post_from("/approvals", &batch, origins).await.status, 403);
        assert_eq!(browser.post_from("/sign-out", &fields, origins).await.status, 403);
    }
    let signed_out = site.browser().post(&page(id), &fields).await;
    assert_eq!(signed_out.status, 401);
    assert_eq!(site.stored(id).await.state, State::Pending);
    assert_eq!(browser.post(&page(id), &fields).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn form_of_other_request_or_session_is_rejected() {
    let site = Site::start().await;
    let (id, other) = (site.request(1, |_| {}).await, site.request(2, |_| {}).await);
    let (mut browser, mut second) = (site.signed_in().await, site.signed_in().await);
    let shown = browser.get(&page(other)).await;
    let of_request = shown.form_tokens().pop().unwrap();
    let of_session = second.get(&page(id)).await.form_tokens().pop().unwrap();
    let sign_out = shown.form_tokens().remove(0);
    for token in [&*of_request, &of_session, &sign_out, ""] {
        let answer = browser.post(&page(id), &[("form", token), ("choice", "approve")]).await;
        assert_eq!(answer.status, 403, "{token}");
        let selected = format!("{id}.{token}");
        browser.post("/approvals", &[("request", &selected), ("choice", "approve")]).await;
    }
    let missing = browser.post(&page(id), &[("choice", "approve")]).await;
    assert_eq!(missing.status, 403);
    assert_eq!(site.stored(id).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_decides_nothing() {
    let site = Site::start().await;
    let id = site.request(1, |_| {}).await;
    let mut browser = site.signed_in().await;
    let token = browser.get(&page(id)).await.form_tokens().pop().unwrap();
    for path in [
        format!("/approvals/{id}?form={token}&choice=approve"),
        format!("/approvals?request={id}.{token}&choice=approve"),
        format!("/sign-out?form={token}"),
    ] {
        browser.get(&path).await;
    }
    assert_eq!(site.stored(id).await.revision, 1);
    assert_eq!(browser.get("/approvals").await.status, 200, "still signed in");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_have_security_headers() {
    let site = Site::start().await;
    let id = site.request(1, |_| {}).await;
    let mut browser = site.signed_in().await;
    let mut answers = Vec::new();
    for path in [
        "/sign-in",
        "/sign-in/oidc",
        "/sign-in/callback",
        "/approvals",
        "/approvals/style.css",
        "/approvals/unknown",
        &page(id),
    ] {
        answers.push(browser.get(path).await);
    }
    for path in ["/approvals", "/sign-in/token", "/sign-out", "/sign-in"] {
        answers.push(browser.post_from(path, &[], &[]).await);
    }
    for answer in answers {
        let policy = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors \
                      'none'; base-uri 'none'";
        assert_eq!(answer.header("content-security-policy"), policy);
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(!answer.body.contains("<script") && !answer.body.contains("style="));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn displayed_values_are_escaped() {
    let site = Site::start().await;
    let hostile = |name: &str| format!("<b title='{name}'>\"&\u{202e}\u{200b}</b>");
    let id = site
        .request(1, |wanted| {
            let binding = &mut wanted.binding;
            binding.caller = Account {
                issuer: hostile("issuer"),
                subject: hostile("subject"),
                person: Some(hostile("person")),
            };
            binding.agent = Some(hostile("agent"));
            binding.resource = hostile("resource");
            binding.version = hostile("version");
            binding.demands[0].policy = hostile("policy");
            binding.demands[0].rule.approvers.push(Approver::Team(hostile("team").into()));
            wanted.preview = json!({ (hostile("key")): hostile("value") }).to_string();
        })
        .await;
    let denied = site.request(2, |_| {}).await;
    // Names of the identity provider have no invisible characters.
    site.provider.change("sub", json!("<b>&\"'"));
    let mut browser = site.signed_in().await;
    let shown = browser.get(&page(id)).await;
    let list = browser.get("/approvals").await;
    let token = browser.get(&page(denied)).await.form_tokens().pop().unwrap();
    let reason = hostile("reason");
    let fields = [("form", &*token), ("choice", "deny"), ("reason", &*reason)];
    assert_eq!(browser.post(&page(denied), &fields).await.status, 303);
    let ended = browser.get(&page(denied)).await;
    assert!(ended.body.contains("title=&#39;reason&#39;&gt;"), "{}", ended.body);
    for answer in [&shown, &list, &ended] {
        assert_eq!(answer.status, 200);
        assert!(!answer.body.contains("<b ") && !answer.body.contains("<b>"), "{}", answer.body);
        assert!(!answer.body.contains(['\u{202e}', '\u{200b}']), "{}", answer.body);
    }
    for name in ["issuer", "subject", "person", "agent", "resource", "version", "policy", "team"] {
        let escaped = format!("&lt;b title=&#39;{name}&#39;&gt;&quot;&amp;\\u{{202e}}\\u{{200b}}");
        assert!(shown.body.contains(&escaped), "{name}: {}", shown.body);
    }
    for name in ["key", "value"] {
        assert!(shown.body.contains(&format!("title=&#39;{name}&#39;&gt;")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_tells_that_arguments_are_hidden() {
    let site = Site::start().await;
    let all = site.request(1, |_| {}).await;
    let selected =
        |wanted: &mut Wanted| wanted.binding.demands[0].rule.show = vec!["/amount".into()];
    let selected = site.request(2, selected).await;
    let mut browser = site.signed_in().await;
    for (id, is_hidden) in [(all, false), (selected, true)] {
        let shown = browser.get(&page(id)).await;
        assert_eq!(shown.body.contains("id=\"hidden-arguments\""), is_hidden, "{}", shown.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn governor_reads_why_arguments_are_absent() {
    let site = Site::start().await;
    let select = |wanted: &mut Wanted| wanted.binding.demands[0].rule.show = vec!["/amount".into()];
    let id = site.request(1, select).await;
    let (token, _) = create_token(&site.store, "gov", Role::Governor).await;
    let mut browser = site.browser();
    browser.post("/sign-in/token", &[("token", &token)]).await;
    let shown = browser.get(&page(id)).await;
    let has = |id: &str| shown.body.contains(&format!("id=\"{id}\""));
    assert!(has("unseen-arguments") && !has("hidden-arguments"), "{}", shown.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_needs_reason() {
    let site = Site::start().await;
    let id = site.request(1, |_| {}).await;
    let mut browser = site.signed_in().await;
    let token = browser.get(&page(id)).await.form_tokens().pop().unwrap();
    let deny = async |browser: &mut Browser, reason: &str| {
        let fields = [("form", &*token), ("choice", "deny"), ("reason", reason)];
        browser.post(&page(id), &fields).await.status
    };
    assert_eq!(deny(&mut browser, " ").await, 409);
    assert_eq!(deny(&mut browser, "no\u{1b}[31m").await, 400, "a terminal could execute it");
    assert_eq!(deny(&mut browser, "duplicate\r\ninvoice").await, 303);
    let request = site.stored(id).await;
    assert_eq!(request.state, State::Denied);
    let denied = approval::Choice::Deny { reason: "duplicate\ninvoice".to_owned() };
    assert_eq!(request.decisions[0].choice, denied);
    let fields = [("form", &*token), ("choice", "approve")];
    assert_eq!(browser.post(&page(id), &fields).await.status, 409, "it is denied");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_skips_requests_for_different_people() {
    let site = Site::start().await;
    let plain = site.request(1, |_| {}).await;
    let sensitive = site
        .request(2, |wanted| {
            wanted.binding.caller.issuer = site.provider.issuer.clone();
            wanted.binding.demands[0].rule.four_eyes = true;
        })
        .await;
    let left = site.request(3, |_| {}).await;
    let mut browser = site.signed_in().await;
    let list = browser.get("/approvals").await;
    let values = list.all_between("name=\"request\" id=\"request-", "\">\n<label");
    let value = |id: RequestId| {
        let value = values.iter().find(|value| value.starts_with(&id.to_string())).unwrap();
        value.split_once("value=\"").unwrap().1.to_owned()
    };
    let (first, second) = (value(plain), value(sensitive));
    let fields = [("request", &*first), ("request", &*second), ("choice", "approve")];
    assert_eq!(browser.post("/approvals", &fields).await.status, 200);
    for (id, state) in
        [(plain, State::Approved), (sensitive, State::Pending), (left, State::Pending)]
    {
        assert_eq!(site.stored(id).await.state, state);
    }
    assert_eq!(browser.post("/approvals", &[("choice", "approve")]).await.status, 400, "none");
    let token = browser.get(&page(sensitive)).await.form_tokens().pop().unwrap();
    let alone = browser.post(&page(sensitive), &[("form", &token), ("choice", "approve")]).await;
    assert_eq!((alone.status.as_u16(), site.stored(sensitive).await.state), (303, State::Approved));
}

#[tokio::test(flavor = "multi_thread")]
async fn api_token_does_not_approve_for_different_people() {
    let site = Site::start().await;
    let id = site
        .request(1, |wanted| {
            wanted.binding.caller.issuer = site.provider.issuer.clone();
            wanted.binding.demands[0].rule.four_eyes = true;
        })
        .await;
    let (token, _) = site.token("ann").await;
    let mut browser = site.browser();
    browser.post("/sign-in/token", &[("token", &token)]).await;
    let token = browser.get(&page(id)).await.form_tokens().pop().unwrap();
    let decided = browser.post(&page(id), &[("form", &token), ("choice", "approve")]).await;
    assert_eq!((decided.status.as_u16(), site.stored(id).await.state), (409, State::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_others_are_hidden() {
    let site = Site::start().await;
    let team = |name: &'static str| vec![Approver::Team(name.into())];
    let hidden = site.request(1, |w| w.binding.demands[0].rule.approvers = team("legal")).await;
    let shown = site.request(2, |w| w.binding.demands[0].rule.approvers = team("finance")).await;
    let mut browser = site.signed_in().await;
    assert_eq!(browser.get(&page(hidden)).await.status, 404);
    let list = browser.get("/approvals").await.body;
    assert!(list.contains(&shown.to_string()) && !list.contains(&hidden.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_pending_requests_first() {
    let site = Site::start().await;
    let mut browser = site.signed_in().await;
    for id in 1..=60 {
        site.request(id, |_| {}).await;
    }
    let ended = RequestId::new(1);
    let token = browser.get(&page(ended)).await.form_tokens().pop().unwrap();
    browser.post(&page(ended), &[("form", &token), ("choice", "approve")]).await;
    let first = browser.get("/approvals").await;
    assert_eq!(first.body.matches("type=\"checkbox\"").count(), 50);
    assert!(!first.body.contains(&ended.to_string()));
    let next = first.all_between("rel=\"next\" href=\"", "\"").remove(0).replace("&amp;", "&");
    let second = browser.get(&next).await;
    assert_eq!(second.body.matches("type=\"checkbox\"").count(), 9);
    assert!(second.body.contains(&ended.to_string()));
    assert!(second.all_between("rel=\"next\"", "\"").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn link_of_other_site_opens_page_of_session() {
    let site = Site::start().await;
    let id = site.request(1, |_| {}).await;
    let mut browser = site.signed_in().await;
    let answer = browser.get_from_other_site(&page(id)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains(&format!("content=\"0; url={}\"", page(id))));
    assert!(!answer.body.contains("amount"), "the request itself is not shown");
    assert_eq!(browser.get(&page(id)).await.status, 200);
}

/// Reads the public URL from standard input, and stops at its end. Writes the address and the ids of requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it serves the tests in tests/browser"]
async fn pages_serve_browser_tests() {
    let read = || std::io::stdin().lines().next().transpose();
    let public = tokio::task::spawn_blocking(read).await.unwrap().unwrap().unwrap();
    let site = Site::at(&public).await;
    let mut ids = Vec::new();
    for id in 1..=4 {
        ids.push(site.request(id, |wanted| wanted.binding.agent = Some("a".repeat(100))).await);
    }
    let hostile = "<img src=x onerror=window.ran=true><script>window.ran=true</script>";
    let last = site.request(5, |wanted| {
        wanted.binding.caller.subject = hostile.to_owned();
        wanted.binding.agent = Some(hostile.to_owned());
        wanted.preview = json!({ "arguments": hostile, "context": hostile }).to_string();
    });
    ids.push(last.await);
    let address = site.server.address;
    let served = json!({ "address": address.to_string(), "requests": ids, "hostile": hostile });
    println!("\n{served}");
    tokio::task::spawn_blocking(read).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_absent_without_public_url() {
    let server = TestServer::start().await;
    for path in ["/approvals", "/sign-in", "/approvals/style.css"] {
        assert_eq!(Browser::new(server.address).get(path).await.status, 404, "{path}");
    }
}
