//! Who was it? What the audit says of callers that prove something.

use acceptance::{Gateway, ModernClient};
use serde_json::json;

use super::{
    Backend, bearing, gateway, is_research_agent,
    issuer::{ISSUER, Issuer},
    list, with,
};

/// The last event of this kind, without quotes.
fn last(gateway: &Gateway, event: &str) -> String {
    let log = gateway.process.stderr();
    let last = log.lines().rfind(|line| line.contains(&format!("event=\"{event}\"")));
    last.unwrap_or_else(|| panic!("no {event} in {log}")).replace('"', "")
}

async fn search(client: &ModernClient) -> u16 {
    client.call("search_documents", json!({ "query": "gateway" })).await.status
}

#[tokio::test]
async fn who_is_refused_for_its_scopes_stands_in_the_audit() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let jwt = issuer.block("requiredScopes: [mcp:use]");
    let scopes = "{ search_documents: [docs:read], prompts/list: [docs:read] }";
    let identity = format!("{{ jwt: {jwt}, trustHeaders: true, scopes: {scopes} }}");
    let gateway = gateway(&backend, &identity, "");
    let good = issuer.but("scope", json!("mcp:use"));
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

    let narrow = issuer.but("scope", json!("other"));
    assert_eq!(list(&bearing(&gateway, &narrow)).await.status, 403);
    let told = last(&gateway, "scopes-rejected");
    assert!(told.contains(&format!("principal={ISSUER} ann")), "{told}");
    assert!(told.contains("needed=mcp:use") && !told.contains("tool="), "{told}");

    // Who shows no token is known by its headers, or not at all.
    assert_eq!(search(&with(&gateway, &[("x-agent-name", "adk-demo-agent")])).await, 401);
    let told = last(&gateway, "scopes-rejected");
    assert!(told.contains("claimed_agent=adk-demo-agent identified_by=headers"), "{told}");
    assert!(told.contains("status=401") && !told.contains("principal="), "{told}");
    // A caller that may not see the tool learns nothing of its scopes.
    assert_eq!(search(&with(&gateway, &[])).await, 200);
    let answer = with(&gateway, &[]).request("prompts/list", serde_json::json!({})).await;
    assert_eq!(answer.expect("an answer").status, 401);
    assert!(last(&gateway, "scopes-rejected").contains("identified_by=nothing"));
    let log = gateway.process.stderr();
    for token in [good, narrow] {
        let (_, signature) = token.rsplit_once('.').expect("a signature");
        assert!(!log.contains(signature), "a token is in the log");
    }
}

#[tokio::test]
async fn who_shows_nothing_where_something_is_needed_stands_in_the_audit() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let identity = format!("{{ jwt: {}, required: true }}", issuer.block(""));
    let gateway = gateway(&backend, &identity, "");
    assert_eq!(list(&with(&gateway, &[])).await.status, 401);
    let told = last(&gateway, "credentials-rejected");
    assert!(told.contains("reason=it shows nothing that proves who is calling"), "{told}");
    assert!(told.contains("address=127.0.0.1:"), "{told}");
}

#[tokio::test]
async fn a_token_that_names_no_agent_is_known_by_its_subject() {
    let (issuer, backend) = (Issuer::start().await, Backend::start());
    let identity = format!("{{ jwt: {} }}", issuer.block(""));
    let gateway = gateway(&backend, &identity, "");
    let named = issuer.sign("k1", &Issuer::claims());
    is_research_agent(&bearing(&gateway, &named)).await;
    assert_eq!(search(&bearing(&gateway, &named)).await, 200);
    let told = last(&gateway, "tools/call");
    assert!(told.contains("agent=research-agent"), "{told}");
    assert!(told.contains(&format!("principal={ISSUER} ann")), "{told}");
    let nameless = issuer.but("agent", json!(null));
    assert_eq!(search(&bearing(&gateway, &nameless)).await, 200);
    let told = last(&gateway, "tools/call");
    assert!(told.contains("deny:unknown-caller") && !told.contains(" agent="), "{told}");
    assert!(told.contains(&format!("principal={ISSUER} ann")), "{told}");
}
