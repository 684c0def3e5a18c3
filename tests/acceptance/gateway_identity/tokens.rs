//! Access tokens (JWT) at a gateway: acceptance, rejection, and discovery of the authorization
//! server.

use acceptance::{Gateway, GatewayOptions};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use serde_json::{Value, json};

use super::{
    Backend, assert_refused, bearing, client_with_headers, gateway, is_research_agent,
    issuer::{ISSUER, Issuer},
    list, options,
};
use crate::access::identity_provider::crafted;

#[tokio::test]
async fn agent_claim_list_uses_first_claim_present() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let token = |claims: &[(&str, Value)]| {
        let mut all = Issuer::claims();
        all.as_object_mut().expect("claims are an object").remove("agent");
        for (claim, value) in claims {
            all[claim] = value.clone();
        }
        issuer.sign("k1", &all)
    };
    let research = || json!("research-agent");
    let start =
        |claims: &str| gateway(&backend, &format!("{{ jwt: {} }}", issuer.block(claims)), "");
    let default = start("");
    is_research_agent(&bearing(&default, &token(&[("agent", research())]))).await;
    is_research_agent(&bearing(&default, &token(&[("agent_name", research())]))).await;
    let both = token(&[("agent_name", research()), ("agent", json!("nobody"))]);
    assert!(bearing(&default, &both).tool_names().await.is_empty(), "`agent` comes first");
    let malformed = token(&[("agent_name", research()), ("agent", json!(7))]);
    assert!(bearing(&default, &malformed).tool_names().await.is_empty(), "`agent` comes first");

    let listed = start("agentClaim: [azp, /act/agent]");
    is_research_agent(&bearing(&listed, &token(&[("azp", research())]))).await;
    is_research_agent(&bearing(&listed, &token(&[("act", json!({ "agent": "research-agent" }))])))
        .await;
    let other = token(&[("agent_name", research())]);
    assert!(
        bearing(&listed, &other).tool_names().await.is_empty(),
        "the list replaces the default"
    );
}

#[tokio::test]
async fn token_identifies_agent_of_its_claim() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let jwt = issuer.block("agentClaim: agent, versionClaim: agent_version");
    let gateway = gateway(&backend, &format!("{{ jwt: {jwt} }}"), "");
    let good = issuer.sign("k1", &Issuer::claims());
    is_research_agent(&bearing(&gateway, &good)).await;
    is_research_agent(&bearing(&gateway, &issuer.token_with("agent_version", json!("2.1.0"))))
        .await;
    is_research_agent(&bearing(
        &gateway,
        &issuer.token_with("exp", json!(get_current_timestamp() - 30)),
    ))
    .await;

    let now = get_current_timestamp();
    for (claim, value) in [
        ("aud", json!("another")),
        ("aud", Value::Null),
        ("iss", json!("https://id.example.evil")),
        ("iss", Value::Null),
        ("exp", json!(now - 120)),
        ("exp", Value::Null),
        ("nbf", json!(now + 600)),
        ("iat", json!(now + 600)),
    ] {
        assert_refused(claim, &list(&bearing(&gateway, &issuer.token_with(claim, value))).await);
    }
    let claims = Issuer::claims();
    let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let mut symmetric = Header::new(Algorithm::HS256);
    symmetric.kid = Some("k1".to_owned());
    let public = EncodingKey::from_secret(issuer.pair.der_bytes());
    let none = json!({"alg": "none", "typ": "JWT", "kid": "k1"});
    let es384 = json!({"alg": "ES384", "kid": "k1"});
    let (body, _) = good.rsplit_once('.').expect("a signature");
    for (what, token) in [
        ("an unknown key", issuer.sign("k9", &claims)),
        ("another's key", {
            let key = EncodingKey::from_ec_der(other.serialized_der());
            let mut header = Header::new(Algorithm::ES256);
            header.kid = Some("k1".to_owned());
            encode(&header, &claims, &key).expect("a token")
        }),
        ("no algorithm", crafted(&none, &claims, |_| Vec::new())),
        ("a symmetric one", encode(&symmetric, &claims, &public).expect("a token")),
        ("one that is not allowed", crafted(&es384, &claims, |_| vec![0; 96])),
        ("no signature", format!("{body}.")),
        ("no token", "x".to_owned()),
    ] {
        assert_refused(what, &list(&bearing(&gateway, &token)).await);
    }
    for scheme in ["Basic eDp5", "Bearer", ""] {
        assert_refused(
            scheme,
            &list(&client_with_headers(&gateway, &[("authorization", scheme)])).await,
        );
    }
    let log = gateway.process.stderr();
    assert!(log.contains("credentials-rejected") && log.contains("InvalidAudience"), "{log}");
    assert!(!log.contains(body), "a token is in the log");
}

#[tokio::test]
async fn identity_headers_never_override_invalid_token() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let identity = format!("{{ jwt: {}, trustHeaders: true }}", issuer.block(""));
    let gateway = gateway(&backend, &identity, "");
    let agent = [("x-agent-name", "research-agent")];
    is_research_agent(&client_with_headers(&gateway, &agent)).await;
    let header = format!("Bearer {}", issuer.sign("k9", &Issuer::claims()));
    assert_refused(
        "headers",
        &list(&client_with_headers(&gateway, &[agent[0], ("authorization", &header)])).await,
    );
    let header = format!("Bearer {}", issuer.token_with("agent", json!("nobody")));
    let unknown =
        list(&client_with_headers(&gateway, &[agent[0], ("authorization", &header)])).await;
    assert_eq!(unknown.result()["tools"], json!([]));
}

#[tokio::test]
async fn missing_token_is_answered_with_resource_metadata() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let jwt = issuer.block("requiredScopes: [mcp:use]");
    let gateway = gateway(&backend, &format!("{{ jwt: {jwt}, required: true }}"), "");
    let answer = list(&client_with_headers(&gateway, &[])).await;
    let document = format!("{}/.well-known/oauth-protected-resource/mcp", gateway.url());
    let challenge = format!("Bearer scope=\"mcp:use\", resource_metadata=\"{document}\"");
    assert_eq!((answer.status, &*answer.challenge), (401, &*challenge));
    assert_eq!(answer.error_code(), -32600);
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let request = reqwest::Client::new().request(method, gateway.mcp_url());
        assert_eq!(request.send().await.expect("an answer").status(), 401);
    }

    for url in [&*document, document.trim_end_matches("/mcp")] {
        let answer = reqwest::get(url).await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], "application/json");
        let text = answer.text().await.expect("text");
        let said: Value = serde_json::from_str(&text).expect("JSON");
        let expected = json!({
            "resource": gateway.mcp_url(),
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp:use"],
        });
        assert_eq!(said, expected);
    }
    let without = list(&bearing(&gateway, &issuer.token_with("scope", json!("other")))).await;
    assert_eq!(without.status, 403, "{without:?}");
    is_research_agent(&bearing(&gateway, &issuer.token_with("scope", json!("mcp:use other"))))
        .await;
    is_research_agent(&bearing(&gateway, &issuer.token_with("scp", json!(["mcp:use"])))).await;
}

#[tokio::test]
async fn missing_scopes_are_all_named() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let jwt = issuer.block("");
    let scopes = "{ tools/call: [mcp:call], search_documents: [docs:read] }";
    let identity = format!(
        "{{ jwt: {jwt}, trustHeaders: true, resource: \"https://gw.example/agents/mcp\", \
         scopes: {scopes}, impliedScopes: {{ docs:write: [docs:read] }} }}"
    );
    let gateway = gateway(&backend, &identity, "");
    let call = async |scope: &str| {
        let client = bearing(&gateway, &issuer.token_with("scope", json!(scope)));
        is_research_agent(&client).await;
        client.call("search_documents", json!({ "query": "gateway" })).await
    };
    let all = "scope=\"mcp:call docs:read\", resource_metadata=\
               \"https://gw.example/.well-known/oauth-protected-resource/agents/mcp\"";
    for scope in ["", "mcp:call", "docs:read", "docs:write"] {
        let answer = call(scope).await;
        let expected = format!("Bearer error=\"insufficient_scope\", {all}");
        assert_eq!((answer.status, &*answer.challenge), (403, &*expected), "{scope}");
        assert_eq!(answer.error_code(), -32600);
    }
    for scope in ["mcp:call docs:read", "docs:write mcp:call"] {
        let answer = call(scope).await;
        assert!(answer.result()["content"].is_array(), "{scope}: {answer:?}");
    }
    // A caller without a token gets the address of the authorization server.
    let client = client_with_headers(&gateway, &[("x-agent-name", "research-agent")]);
    let answer = client.call("search_documents", json!({ "query": "gateway" })).await;
    assert_eq!((answer.status, answer.challenge), (401, format!("Bearer {all}")));
}

#[tokio::test]
async fn scoped_tool_is_unknown_to_undeclared_callers() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    // The research agent declares `fetch`, but neither `get_document` nor the composition, which
    // calls `fetch`.
    for method_scopes in ["", "tools/call: [mcp:call], "] {
        let scopes = "get_document: [docs:read], fetch_and_store: [store], fetch: [web]";
        let identity = format!(
            "{{ jwt: {}, trustHeaders: true, scopes: {{ {method_scopes}{scopes} }} }}",
            issuer.block("")
        );
        let runtime = "{ unknownCaller: deny, undeclaredDependency: deny }".to_owned();
        let options = options(&backend, &identity, "");
        let gateway = Gateway::start(&GatewayOptions { runtime: Some(runtime), ..options });
        let agent = [("x-agent-name", "research-agent")];
        let callers = [
            bearing(&gateway, &issuer.token_with("scope", json!("other"))),
            bearing(&gateway, &issuer.token_with("scope", json!("mcp:call"))),
            client_with_headers(&gateway, &agent),
        ];
        is_research_agent(&callers[0]).await;
        for caller in &callers {
            let unknown = caller.call("no_such_tool", json!({})).await;
            for hidden in ["get_document", "fetch_and_store"] {
                let answer = caller.call(hidden, json!({})).await;
                let message = answer.message.to_string().replace(hidden, "no_such_tool");
                assert_eq!(answer.status, unknown.status, "{hidden}: {answer:?}");
                assert_eq!(answer.challenge, unknown.challenge, "{hidden}");
                assert_eq!(message, unknown.message.to_string());
            }
            let visible = caller.call("fetch", json!({ "url": "https://example.com" })).await;
            assert!([401, 403].contains(&visible.status), "{visible:?}");
            assert!(visible.challenge.contains("web"), "{visible:?}");
        }
    }
}

#[tokio::test]
async fn signing_keys_rotate_and_survive_issuer_outage() {
    let (mut issuer, backend) = (Issuer::start().await, Backend::start());
    let gateway = gateway(&backend, &format!("{{ jwt: {} }}", issuer.block("")), "");
    let old = issuer.sign("k1", &Issuer::claims());
    is_research_agent(&bearing(&gateway, &old)).await;
    issuer.rotate("k2");
    is_research_agent(&bearing(&gateway, &issuer.sign("k2", &Issuer::claims()))).await;
    assert_refused("a key that is gone", &list(&bearing(&gateway, &old)).await);
    issuer.stop();
    assert_refused(
        "unknown",
        &list(&bearing(&gateway, &issuer.sign("k3", &Issuer::claims()))).await,
    );
    is_research_agent(&bearing(&gateway, &issuer.sign("k2", &Issuer::claims()))).await;
}
