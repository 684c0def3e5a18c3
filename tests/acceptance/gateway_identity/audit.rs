//! Audit events of authenticated callers.

use acceptance::{Gateway, ModernClient};
use serde_json::json;

use super::{
    Backend, DIGEST, KEY, bearing, client_with_headers, gateway, is_research_agent,
    issuer::{ISSUER, Issuer},
    list,
};

/// The last audit event of this kind, without quotes.
fn last(gateway: &Gateway, event: &str) -> String {
    let log = gateway.process.stderr();
    let last = log.lines().rfind(|line| line.contains(&format!("event=\"{event}\"")));
    last.unwrap_or_else(|| panic!("no {event} in {log}")).replace('"', "")
}

async fn search(client: &ModernClient) -> u16 {
    client.call("search_documents", json!({ "query": "gateway" })).await.status
}

#[tokio::test]
async fn missing_scope_is_audited() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let jwt = issuer.block("requiredScopes: [mcp:use]");
    let scopes = "{ search_documents: [docs:read], prompts/list: [docs:read] }";
    let identity = format!("{{ jwt: {jwt}, trustHeaders: true, scopes: {scopes} }}");
    let gateway = gateway(&backend, &identity, "");
    let good = issuer.token_with("scope", json!("mcp:use"));
    is_research_agent(&bearing(&gateway, &good)).await;

    assert_eq!(search(&bearing(&gateway, &good)).await, 403);
    let told = last(&gateway, "scopes-rejected");
    for field in [
        "claimed_agent=research-agent",
        &format!("principal={ISSUER} ann"),
        "identified_by=token",
        "method=tools/call",
        "tool=search_documents",
        "needed=mcp:use docs:read",
        "status=403",
        "address=127.0.0.1:",
    ] {
        assert!(told.contains(field), "no {field} in {told}");
    }

    let narrow = issuer.token_with("scope", json!("other"));
    assert_eq!(list(&bearing(&gateway, &narrow)).await.status, 403);
    let told = last(&gateway, "scopes-rejected");
    assert!(told.contains(&format!("principal={ISSUER} ann")), "{told}");
    assert!(told.contains("needed=mcp:use") && !told.contains("tool="), "{told}");

    // Without a token, a caller is identified by its headers, or anonymous.
    assert_eq!(
        search(&client_with_headers(&gateway, &[("x-agent-name", "adk-demo-agent")])).await,
        401
    );
    let told = last(&gateway, "scopes-rejected");
    assert!(told.contains("claimed_agent=adk-demo-agent identified_by=headers"), "{told}");
    assert!(told.contains("status=401") && !told.contains("principal="), "{told}");
    // Scopes of a tool are not revealed to callers that may not see it.
    assert_eq!(search(&client_with_headers(&gateway, &[])).await, 200);
    let answer =
        client_with_headers(&gateway, &[]).request("prompts/list", serde_json::json!({})).await;
    assert_eq!(answer.expect("an answer").status, 401);
    assert!(last(&gateway, "scopes-rejected").contains("identified_by=none"));
    let log = gateway.process.stderr();
    for token in [good, narrow] {
        let (_, signature) = token.rsplit_once('.').expect("a signature");
        assert!(!log.contains(signature), "a token is in the log");
    }
}

#[tokio::test]
async fn caller_with_key_is_audited_by_its_digest() {
    let backend = Backend::start();
    let scopes = "{ prompts/list: [docs:read] }";
    let keys = format!("[{{ agent: research-agent, sha256: {DIGEST} }}]");
    let gateway = gateway(&backend, &format!("{{ apiKeys: {keys}, scopes: {scopes} }}"), "");
    is_research_agent(&bearing(&gateway, KEY)).await;
    assert_eq!(search(&bearing(&gateway, KEY)).await, 200);
    let refused = bearing(&gateway, KEY).request("prompts/list", json!({})).await;
    assert_eq!(refused.expect("an answer").status, 403);
    for event in ["tools/call", "scopes-rejected"] {
        let told = last(&gateway, event);
        assert!(told.contains(&format!("principal=sha256:{DIGEST}")), "{told}");
    }
}

#[tokio::test]
async fn missing_credentials_are_audited() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let identity = format!("{{ jwt: {}, required: true }}", issuer.block(""));
    let gateway = gateway(&backend, &identity, "");
    assert_eq!(list(&client_with_headers(&gateway, &[])).await.status, 401);
    let told = last(&gateway, "credentials-rejected");
    assert!(told.contains("reason=no credentials"), "{told}");
    assert!(told.contains("address=127.0.0.1:"), "{told}");
}

#[tokio::test]
async fn token_without_agent_is_audited_by_subject() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let identity = format!("{{ jwt: {} }}", issuer.block(""));
    let gateway = gateway(&backend, &identity, "");
    let named = issuer.sign("k1", &Issuer::claims());
    is_research_agent(&bearing(&gateway, &named)).await;
    assert_eq!(search(&bearing(&gateway, &named)).await, 200);
    let told = last(&gateway, "tools/call");
    assert!(told.contains("agent=research-agent"), "{told}");
    assert!(told.contains(&format!("principal={ISSUER} ann")), "{told}");
    let nameless = issuer.token_with("agent", json!(null));
    assert_eq!(search(&bearing(&gateway, &nameless)).await, 200);
    let told = last(&gateway, "tools/call");
    assert!(told.contains("deny:unknown-caller") && !told.contains(" agent="), "{told}");
    assert!(told.contains(&format!("principal={ISSUER} ann")), "{told}");
}
