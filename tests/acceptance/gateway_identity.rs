//! Authentication of a gateway's callers: tokens, keys, certificates and headers of trusted hops.

mod audit;
pub(crate) mod issuer;
mod reload;
mod tokens;

use std::process::Command;

use acceptance::{
    Backend, CtlOutput, Gateway, GatewayOptions, ModernClient, binary, mcp::Answer, tls::Authority,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

/// A gateway with the example and this `identity` block that denies unknown callers.
fn gateway(backend: &Backend, identity: &str, more: &str) -> Gateway {
    Gateway::start(&options(backend, identity, more))
}

fn options(backend: &Backend, identity: &str, more: &str) -> GatewayOptions {
    let example = acceptance::root().join("examples/registry-v2.json");
    GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: backend.targets(),
        runtime: Some("{ unknownCaller: deny }".to_owned()),
        more: format!("identity: {identity}\n{more}"),
    }
}

/// A client with these request headers.
fn client_with_headers(gateway: &Gateway, headers: &[(&str, &str)]) -> ModernClient {
    let header = |(name, value): &(&str, &str)| {
        let name: HeaderName = name.parse().expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    };
    let headers: HeaderMap = headers.iter().map(header).collect();
    let http = reqwest::Client::builder().default_headers(headers).build().expect("a client");
    ModernClient::anonymous(&gateway.mcp_url()).over(http)
}

pub(crate) fn bearing(gateway: &Gateway, token: &str) -> ModernClient {
    client_with_headers(gateway, &[("authorization", &format!("Bearer {token}"))])
}

/// Waits until the gateway lists the three tools of the research agent.
async fn is_research_agent(client: &ModernClient) {
    acceptance::eventually("the agent is known", || async {
        let answer = client.request("tools/list", json!({})).await.expect("an answer");
        answer.message["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 3)
    })
    .await;
}

async fn list(client: &ModernClient) -> Answer {
    client.request("tools/list", json!({})).await.expect("an answer")
}

/// Asserts a rejected credential, in HTTP and in JSON-RPC.
fn assert_refused(what: &str, answer: &Answer) {
    assert_eq!(answer.status, 401, "{what}: {answer:?}");
    assert!(answer.challenge.contains("error=\"invalid_token\""), "{what}: {answer:?}");
    assert_eq!(answer.error_code(), -32600, "{what}: {answer:?}");
}

/// `printf %s the-key-of-the-research-agent | sha256sum`
const DIGEST: &str = "27541a7f468cc290d0991bcc4c27f2433319fdcceb7267b7d837119af9c6436e";
const KEY: &str = "the-key-of-the-research-agent";

#[tokio::test]
async fn api_key_identifies_its_agent() {
    let backend = Backend::start();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("key");
    std::fs::write(&file, "another key\n").expect("a file");
    let keys = format!(
        "[{{ agent: research-agent, version: 2.1.0, sha256: {DIGEST} }}, \
         {{ agent: nobody, keyFile: {} }}]",
        file.display()
    );
    let gateway = gateway(&backend, &format!("{{ apiKeys: {keys}, required: true }}"), "");
    is_research_agent(&client_with_headers(&gateway, &[("x-api-key", KEY)])).await;
    is_research_agent(&bearing(&gateway, KEY)).await;
    let unknown = list(&client_with_headers(&gateway, &[("x-api-key", "another key")])).await;
    assert_eq!(unknown.result()["tools"], json!([]), "an agent that is not registered");
    for wrong in ["x", DIGEST, ""] {
        assert_refused(wrong, &list(&client_with_headers(&gateway, &[("x-api-key", wrong)])).await);
        assert_refused(wrong, &list(&bearing(&gateway, wrong)).await);
    }
    let both = [("x-api-key", KEY), ("authorization", "Bearer x")];
    assert_refused("two credentials", &list(&client_with_headers(&gateway, &both)).await);
    let nothing = list(&client_with_headers(&gateway, &[("x-agent-name", "research-agent")])).await;
    assert_eq!((nothing.status, &*nothing.challenge), (401, "Bearer"));
    let document = format!("{}/.well-known/oauth-protected-resource", gateway.url());
    assert_eq!(reqwest::get(document).await.expect("an answer").status(), 404, "no tokens");
    assert!(!gateway.process.stderr().contains(KEY), "a key is in the log");
}

#[tokio::test]
async fn demo_clients_send_key_over_tls() {
    let (authority, backend) = (Authority::new(), Backend::start());
    let (server, dir) = (authority.server(), tempfile::tempdir().expect("a directory"));
    let [certificate, key] = [&server.certificate, &server.key].map(|file| file.display());
    let tls = format!("tls: {{ certFile: {certificate}, keyFile: {key} }}\n");
    let keys = format!("[{{ agent: research-agent, version: 2.1.0, sha256: {DIGEST} }}]");
    let gateway = gateway(&backend, &format!("{{ apiKeys: {keys}, required: true }}"), &tls);
    let file = dir.path().join("key");
    std::fs::write(&file, format!("{KEY}\n")).expect("a file");
    let (file, ca) = (file.display().to_string(), authority.ca.display().to_string());
    let list = |variables: &[(&str, &str)], options: &[&str]| -> CtlOutput {
        let mut client = Command::new(binary("demo-client"));
        client.args(["--url", &gateway.mcp_url()]).args(options).arg("list");
        client.envs(variables.iter().copied()).output().expect("it runs").into()
    };
    let lists_tools = |listed: &CtlOutput| listed.success() && listed.stdout.lines().count() == 3;
    acceptance::eventually("the agent is known", || async {
        lists_tools(&list(&[("GATEWAY_TOKEN", KEY)], &["--ca-cert", &ca]))
    })
    .await;
    for era in [&["--ca-cert", &*ca][..], &["--ca-cert", &*ca, "--legacy"]] {
        let listed = list(&[], &[era, &["--token-file", &file]].concat());
        assert!(lists_tools(&listed), "{era:?}: {listed:?}");
        for rejected in [list(&[], era), list(&[], &[era, &["--token", "another"]].concat())] {
            assert!(rejected.code == 3 && rejected.stderr.contains("--token-file"), "{rejected:?}");
        }
    }
    let untrusted = list(&[("GATEWAY_TOKEN", KEY)], &[]);
    assert!(untrusted.code == 3 && untrusted.stderr.contains("--ca-cert"), "{untrusted:?}");
    let list_agents = |options: &[&str]| -> CtlOutput {
        let mut client = Command::new(binary("demo-a2a-client"));
        client.args(["--url", &gateway.url()]).args(options).arg("list");
        client.output().expect("it runs").into()
    };
    let listed = list_agents(&["--ca-cert", &ca, "--token-file", &file]);
    assert!(listed.success(), "{listed:?}");
    assert_eq!(list_agents(&["--ca-cert", &ca, "--token", "another"]).code, 1);
    let untrusted = list_agents(&["--token-file", &file]);
    assert!(untrusted.code == 3 && untrusted.stderr.contains("--ca-cert"), "{untrusted:?}");
}

#[tokio::test]
async fn check_names_unregistered_agents_of_keys() {
    let key = |agent: &str, digit: &str| {
        format!("{{ agent: {agent}, sha256: '{}' }}", digit.repeat(DIGEST.len()))
    };
    let keys = [
        key("research-agent", "1"),
        key("reserch-agent", "2"),
        key("research-agent, version: 9.9.9", "3"),
    ];
    let keys = format!("{{ apiKeys: [{}] }}", keys.join(", "));
    let checked = gateway(&Backend::start(), &keys, "").check();
    assert!(checked.success(), "{checked:?}");
    let is_about_agents = |line: &&str| line.contains("agent-unregistered");
    let warnings: Vec<_> = checked.stdout.lines().filter(is_about_agents).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    warning[agent-unregistered]: the catalog has no usable version of agent/research-agent@9.9.9, which an API key identifies; correct `identity.apiKeys`, or register the agent
    warning[agent-unregistered]: the catalog has no usable version of agent/reserch-agent, which an API key identifies; correct `identity.apiKeys`, or register the agent
    ");
}

#[tokio::test]
async fn unregistered_agents_of_keys_are_logged() {
    let backend = Backend::start();
    let keys = format!("{{ apiKeys: [{{ agent: reserch-agent, sha256: {DIGEST} }}] }}");
    let gateway = gateway(&backend, &keys, "");
    let parts = ["agent-unregistered", "agent/reserch-agent"];
    acceptance::eventually("the log names it", || async {
        gateway.process.logged(&parts).len() == 1
    })
    .await;
    gateway.configure(&options(&backend, &keys.replace("reserch", "resarch"), ""));
    let parts = ["agent-unregistered", "agent/resarch-agent"];
    acceptance::eventually("a reload is checked", || async {
        gateway.process.logged(&parts).len() == 1
    })
    .await;
}

#[tokio::test]
async fn certificate_overrides_identity_headers() {
    let (authority, backend) = (Authority::new(), Backend::start());
    let server = authority.server();
    let tls = format!(
        "tls: {{ certFile: {}, keyFile: {}, clientCaFile: {} }}\n",
        server.certificate.display(),
        server.key.display(),
        authority.ca.display()
    );
    let mtls = "{ spiffe: \"spiffe://td/agent/{name}/{version}\", subject: true }";
    let identity = format!("{{ mtls: {mtls}, trustHeaders: true }}");
    let gateway = gateway(&backend, &identity, &tls);
    let showing = |name: &str| {
        let http = authority.trusting_as(&authority.client(name));
        ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.1.0").over(http)
    };
    is_research_agent(&showing("spiffe://td/agent/research-agent/2.1.0")).await;
    is_research_agent(&showing("research-agent")).await;
    for other in [
        "spiffe://td/agent/research-agent/9.9.9",
        "spiffe://evil/agent/research-agent/2.1.0",
        "spiffe://td/agent/research-agent",
        "somebody",
    ] {
        let answer = list(&showing(other)).await;
        assert_eq!(answer.result()["tools"], json!([]), "{other}: the headers do not help");
    }
}

#[tokio::test]
async fn identity_headers_are_accepted_only_from_trusted_hops() {
    let backend = Backend::start();
    let agent = [("x-agent-name", "research-agent"), ("x-agent-version", "2.1.0")];
    for hops in ["[10.0.0.0/8, \"::1\"]", "[127.0.0.2]"] {
        let identity = format!("{{ trustHeaders: true, trustedProxies: {hops} }}");
        let gateway = gateway(&backend, &identity, "");
        gateway.ready().await;
        let answer = list(&client_with_headers(&gateway, &agent)).await;
        assert_eq!(answer.result()["tools"], json!([]), "{hops}");
    }
    for hops in ["[127.0.0.0/8]", "[10.0.0.1, 127.0.0.1]"] {
        let gateway =
            gateway(&backend, &format!("{{ trustedProxies: {hops}, required: true }}"), "");
        is_research_agent(&client_with_headers(&gateway, &agent)).await;
        assert_eq!(list(&client_with_headers(&gateway, &[])).await.status, 401);
    }
}

#[test]
fn ineffective_identity_settings_are_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("gateway.yaml");
    let key = dir.path().join("key");
    std::fs::write(&key, format!("{KEY}\n")).expect("a file");
    let key = key.display();
    let jwt = "issuer: i, audience: a";
    for (identity, why) in [
        ("required: true".to_owned(), "rejects every caller"),
        ("mtls: { subject: true }".to_owned(), "clientCaFile"),
        (format!("jwt: {{ {jwt} }}"), "identity.jwt.jwks: missing"),
        (format!("jwt: {{ {jwt}, jwks: \"http://id.example/k\" }}"), "https://"),
        (format!("jwt: {{ {jwt}, jwks: f, algorithms: [HS256] }}"), "`HS256` is not supported"),
        (format!("jwt: {{ {jwt}, jwks: f, algorithms: [none] }}"), "`none` is not supported"),
        ("apiKeys: [{ agent: a, sha256: abc }]".to_owned(), "64 hexadecimal"),
        ("apiKeys: [{ agent: a }]".to_owned(), "one of `sha256` and `keyFile`"),
        ("apiKeys: [{ agent: a, keyFile: /nobody/has/this }]".to_owned(), "/nobody/has/this"),
        (
            format!("apiKeys: [{{ agent: a, sha256: {DIGEST} }}, {{ agent: b, keyFile: {key} }}]"),
            "line 1: identity.apiKeys[1]: the same key as identity.apiKeys[0]",
        ),
        ("trustedProxies: [everybody]".to_owned(), "is not an address or network"),
        ("resource: gateway".to_owned(), "is not a URL"),
        ("scopes: { tools/call: [a] }".to_owned(), "the only credentials with scopes"),
        (format!("jwt: {{ {jwt}, jwks: f, requiredScopes: ['a\"b'] }}"), "is not a scope"),
    ] {
        let yaml = format!("identity: {{ {identity} }}\nregistry: {{ source: \"file://x\" }}\n");
        std::fs::write(&file, yaml).expect("a file");
        let mut command = Command::new(binary("gateway-agent"));
        let output = command.arg("--check").arg("--config").arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{identity}: {said}");
        assert!(said.contains(why), "{identity}: no {why:?} in {said}");
    }
}

#[tokio::test]
async fn client_info_scopes_tools_for_any_program_version() {
    let backend = Backend::start();
    let gateway = gateway(&backend, "{ scopeByClientInfo: true }", "");
    let client = |name: &str, version: &str| {
        ModernClient::anonymous(&gateway.mcp_url()).introduced_as(name, version)
    };
    for program in ["0.4.17", "2.1.0", "nightly"] {
        is_research_agent(&client("research-agent", program)).await;
    }
    assert!(client("stranger", "2.1.0").tool_names().await.is_empty());
}
