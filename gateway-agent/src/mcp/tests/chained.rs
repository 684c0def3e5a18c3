//! A gateway whose upstream is another gateway.

use std::collections::BTreeMap;

use gateway_protocol::mcp::Era;
use gateway_upstream::{Addresses, TransportConfig};
use serde_json::json;

use super::{
    harness::Bench,
    relayed::{ERAS, able, asking, bench},
};

async fn in_front_of(inner: &Bench) -> Bench {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = inner.router.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (headers, addresses) = (BTreeMap::new(), Addresses::Usual);
    let transport =
        TransportConfig::Http { url, headers, auth: None, tls: None, addresses, is_grpc: false };
    asking(transport, Vec::new()).await
}

#[tokio::test]
async fn elicitation_completes_through_two_gateways() {
    for era in ERAS {
        elicit(era).await;
    }
}

async fn elicit(era: Era) {
    let (inner, far_side) = bench(era, "").await;
    let outer = in_front_of(&inner).await;
    let first = json!({ "name": "asks", "arguments": { "x": 1 } });
    let first = outer.got(able("tools/call", first).build()).await.result();
    assert_eq!(first["resultType"], "input_required", "{era:?}: {first}");
    let (key, question) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let brought = json!({ "name": "asks", "arguments": { "x": 1 }, "requestState": first["requestState"],
        "inputResponses": { key: { "action": "accept" } } });
    let second = outer.got(able("tools/call", brought).build()).await.result();
    assert_eq!(second["content"][0]["text"], r#"{"action":"accept"}"#, "{era:?}");
    let calls = if era == Era::Modern { 2 } else { 1 };
    assert_eq!(far_side.seen("tools/call").len(), calls, "{era:?}");
}
