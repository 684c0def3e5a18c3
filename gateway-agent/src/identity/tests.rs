//! Resolution of callers from each kind of claim.

use gateway_policy::{CredentialOrigin, VerifiedCredential};
use registry_core::{Catalog, Digest, scope::Scope, scoped_catalog::ScopedCatalog};
use serde_json::json;

use super::*;
use crate::testing::{agent, agent_with, catalog};

const TRUSTING: IdentityConfig =
    IdentityConfig { trust_headers: true, scope_by_client_info: false };
const SCOPING: IdentityConfig = IdentityConfig { trust_headers: true, scope_by_client_info: true };
const WARY: IdentityConfig = IdentityConfig { trust_headers: false, scope_by_client_info: false };

fn registry() -> Arc<Catalog> {
    catalog(
        1,
        vec![
            agent("team/a", "1.0.0", &[]),
            agent("team/a", "1.10.0", &[]),
            agent("team/a", "1.9.0", &[]),
            agent("team/a", "2.0.0", &[]).deprecated(),
            agent("team/a", "3.0.0", &[]).retired(),
            agent("old", "1.0.0", &[]).deprecated(),
            agent("gone", "1.0.0", &[]).retired(),
        ],
    )
}

type Pairs<'a> = &'a [(&'static str, &'a [u8])];

fn headers(pairs: Pairs<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, http::HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn client(name: &str, version: &str) -> Arc<ClientInfo> {
    Arc::new(ClientInfo { name: name.to_owned(), version: version.to_owned() })
}

fn who(config: IdentityConfig, pairs: Pairs<'_>) -> (Identity, AuthMethod) {
    let claim = CallerIdentity::from(read_claim(config, &headers(pairs)));
    let caller = identify(config, &registry(), &claim, Some(client("team/a", "1.9.0")));
    (caller.identity().clone(), caller.auth_method())
}

fn an_agent(name: &str, version: &str) -> Identity {
    Identity::Agent(Key::parse(Kind::Agent, name, version).unwrap())
}

#[test]
fn headers_select_exact_or_newest_active_version() {
    let cases: [(Pairs<'_>, Identity); 10] = [
        (
            &[("x-agent-name", b"team/a"), ("x-agent-version", b"1.0.0")],
            an_agent("team/a", "1.0.0"),
        ),
        (&[("x-agent-name", b" team/a ")], an_agent("team/a", "1.10.0")),
        (&[("x-caller-agent", b"team/a")], an_agent("team/a", "1.10.0")),
        (
            &[("x-agent-name", b"team/a"), ("x-agent-version", b"2.0.0")],
            an_agent("team/a", "2.0.0"),
        ),
        (&[("x-agent-name", b"team/a"), ("x-agent-version", b"3.0.0")], Identity::Retired),
        (&[("x-agent-name", b"team/a"), ("x-agent-version", b"9.9.9")], Identity::UnknownVersion),
        (&[("x-agent-name", b"team/a"), ("x-agent-version", b"latest")], Identity::UnknownVersion),
        (&[("x-agent-name", b"nobody"), ("x-agent-version", b"1.0.0")], Identity::Unknown),
        (&[("x-agent-name", b"gone")], Identity::Retired),
        (&[("x-agent-name", b"no name")], Identity::Unknown),
    ];
    for (pairs, expected) in cases {
        assert_eq!(who(TRUSTING, pairs), (expected, AuthMethod::Headers), "{pairs:?}");
    }
    let old = who(TRUSTING, &[("x-agent-name", b"old")]);
    assert_eq!(old.0, an_agent("old", "1.0.0"), "deprecation alone breaks nobody");
}

#[test]
fn unreadable_claim_has_no_fallback() {
    let cases: [Pairs<'_>; 6] = [
        &[("x-agent-version", b"1.0.0")],
        &[("x-agent-name", b"team/a"), ("x-caller-agent", b"team/a")],
        &[("x-agent-name", b"team/a"), ("x-agent-name", b"team/a")],
        &[
            ("x-agent-name", b"team/a"),
            ("x-agent-version", b"1.0.0"),
            ("x-agent-version", b"1.0.0"),
        ],
        &[("x-agent-name", b"team/\xff")],
        &[("x-agent-name", b"nobody")],
    ];
    for pairs in cases {
        assert_eq!(who(SCOPING, pairs), (Identity::Unknown, AuthMethod::Headers), "{pairs:?}");
    }
}

#[test]
fn untrusted_headers_are_ignored() {
    assert_eq!(who(WARY, &[("x-agent-name", b"team/a")]), (Identity::Unknown, AuthMethod::None));
}

#[test]
fn client_info_selects_agent_if_configured() {
    assert_eq!(who(TRUSTING, &[]), (Identity::Unknown, AuthMethod::None));
    assert_eq!(who(SCOPING, &[]).0, an_agent("team/a", "1.9.0"));
    assert_eq!(who(SCOPING, &[]).1, AuthMethod::ClientInfo);
    let claim = CallerIdentity::Anonymous;
    let identity = |name: &str, version: &str| {
        let caller = identify(SCOPING, &registry(), &claim, Some(client(name, version)));
        caller.identity().clone()
    };
    for program in ["7.0.0", "", "latest", "v22 (linux)"] {
        assert_eq!(identity("team/a", program), an_agent("team/a", "1.10.0"), "{program}");
    }
    assert_eq!(identity("team/a", "3.0.0"), Identity::Retired, "this version is registered");
    assert_eq!(identity("gone", "7.0.0"), Identity::Retired);
    assert_eq!(identity("nobody", "7.0.0"), Identity::Unknown);
}

#[test]
fn client_info_is_shortened_and_optional() {
    let long = "ä".repeat(500);
    let read = |text: &str| ClientInfo::read(&RawValue::from_string(text.to_owned()).unwrap());
    let info = read(&format!(r#"{{"name":"{long}","version":"1","x":2}}"#)).unwrap();
    assert_eq!(info.name.chars().count(), KEPT_CHARS);
    assert!(info.name.capacity() < long.len(), "what was cut off is not kept");
    for malformed in
        ["5", "{}", r#"{"name":"a"}"#, r#"{"name":1,"version":"1"}"#, r#"["team/a","1.0.0"]"#]
    {
        assert_eq!(read(malformed), None, "{malformed}");
    }
}

#[test]
fn quota_keys_separate_verified_callers_only() {
    let proven = |named: Option<&str>, principal: &str| CallerIdentity::Verified {
        agent: named
            .map(|name| AgentReference { name: name.into(), version: Some("1.0.0".into()) }),
        auth_method: AuthMethod::Token,
        principal: principal.into(),
        log_name: None,
        credentials: Box::default(),
    };
    let believed = CallerIdentity::Asserted { name: "a".into(), version: Some("1.0.0".into()) };
    assert_eq!(CallerIdentity::Anonymous.quota_key(), None);
    assert_eq!(CallerIdentity::Malformed.quota_key(), None);
    assert_eq!(proven(None, "").quota_key(), None, "a certificate that cannot be read");
    assert_eq!(proven(Some("a"), "x").quota_key(), proven(Some("a"), "y").quota_key());
    assert_eq!(proven(Some("a"), "x").quota_key(), believed.quota_key());
    assert_ne!(proven(None, "x").quota_key(), proven(None, "y").quota_key());
    assert_ne!(proven(None, "a@1.0.0").quota_key(), believed.quota_key());
}

#[test]
fn incomplete_scope_needs_version_of_agent() {
    let complete = catalog(1, vec![agent("a", "1.0.0", &[]), agent("a", "2.0.0", &[])]);
    for (root, newest) in [
        ("agent/a@1.0.0", Identity::UnknownVersion),
        ("agent/a@2.0.0", Identity::UnknownVersion),
        ("agent/a@*", an_agent("a", "2.0.0")),
    ] {
        let scope = Arc::new(Scope::from_roots(&[root]).unwrap());
        let scoped = ScopedCatalog::select(scope, &complete);
        let resolved = |version: Option<&str>| {
            let claim =
                CallerIdentity::Asserted { name: "a".into(), version: version.map(Into::into) };
            identify(TRUSTING, scoped.catalog(), &claim, None).identity().clone()
        };
        assert_eq!(resolved(None), newest, "{root}");
        if !root.ends_with("2.0.0") {
            assert_eq!(resolved(Some("1.0.0")), an_agent("a", "1.0.0"), "{root}");
        }
    }
}

#[test]
fn principal_is_agent_else_subject_else_certificate() {
    let credential =
        |agent: Option<&str>, origin| VerifiedCredential { agent: agent.map(Into::into), origin };
    let token = |agent| {
        let (issuer, subject) = ("https://id.example".into(), "alice".into());
        credential(agent, CredentialOrigin::Token { issuer, subject, person: None })
    };
    let certificate = |agent| {
        let name = "spiffe://td/x".into();
        credential(agent, CredentialOrigin::Certificate { name, is_spiffe: true })
    };
    let key = credential(Some("new"), CredentialOrigin::ApiKey { digest: Digest::compute(b"k") });
    let of = |credentials: &[VerifiedCredential]| {
        let claim = CallerIdentity::Verified {
            agent: None,
            auth_method: AuthMethod::Token,
            principal: "p".into(),
            log_name: None,
            credentials: credentials.into(),
        };
        serde_json::to_value(claim.principal(|agent| agent == "registered")).unwrap()
    };
    let agent = json!({ "Agent": "registered" });
    let alice = json!({ "Subject": { "issuer": "https://id.example", "subject": "alice" } });
    assert_eq!(of(&[token(Some("registered"))]), agent);
    assert_eq!(of(&[certificate(None), token(Some("registered"))]), agent);
    assert_eq!(of(&[certificate(Some("registered")), token(None)]), agent);
    assert_eq!(of(&[token(Some("unregistered"))]), alice);
    assert_eq!(of(&[certificate(None), token(None)]), alice);
    assert_eq!(of(&[certificate(None)]), json!({ "Certificate": "spiffe://td/x" }));
    assert_eq!(of(&[key]), json!({ "Agent": "new" }));
    assert_eq!(of(&[]), json!(null));
    let asserted = |version: Option<&str>| {
        let claim = CallerIdentity::Asserted { name: "a".into(), version: version.map(Into::into) };
        serde_json::to_value(claim.principal(|_| false)).unwrap()
    };
    assert_eq!(asserted(Some("1.0.0")), asserted(None));
    assert_eq!(CallerIdentity::Anonymous.principal(|_| true), None);
}

#[test]
fn api_key_is_named_by_its_digest() {
    let digest = Digest::compute(b"k");
    let key = VerifiedCredential { agent: None, origin: CredentialOrigin::ApiKey { digest } };
    let name = |log_name: Option<&str>, credentials: Box<[VerifiedCredential]>| {
        let claim = CallerIdentity::Verified {
            agent: None,
            auth_method: AuthMethod::ApiKey,
            principal: digest.to_string().into(),
            log_name: log_name.map(Into::into),
            credentials,
        };
        identify(WARY, &registry(), &claim, None).log_name().map(str::to_owned)
    };
    let key = || vec![key.clone()].into_boxed_slice();
    assert_eq!(name(None, key()), Some(digest.to_string()), "as the subject of budgets");
    assert_eq!(name(Some("spiffe://td/x"), key()), Some(format!("spiffe://td/x, {digest}")));
    assert_eq!(name(None, Box::default()), None);
}

#[test]
fn data_agent_is_identity_of_its_account_only() {
    let asserted = |name: &str| CallerIdentity::Asserted { name: name.into(), version: None };
    let owner = account::registering_account(&asserted("planner")).key().to_string();
    let registered_by = |owner: &str| {
        catalog(
            1,
            vec![agent_with("planner", json!({ "metadata": { "dataAgent": { "owner": owner } } }))],
        )
    };
    let found = |catalog: &Catalog| {
        let claim = asserted("planner");
        let caller = identify(TRUSTING, catalog, &claim, None);
        let caller = caller.without_agents_of_others(catalog, &claim, &claim);
        let is_own = account::is_agent_of(catalog, "planner", &claim);
        assert_eq!(is_own, caller.agent().is_some());
        (caller.identity().clone(), caller.claimed().map(str::to_owned))
    };
    assert_eq!(found(&registered_by(&owner)), (an_agent("planner", "1.0.0"), None));
    let unknown = (Identity::Unknown, Some("planner".to_owned()));
    assert_eq!(found(&registered_by("another account")), unknown);
}
