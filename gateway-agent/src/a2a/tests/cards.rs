//! Cards of agents and of the gateway.

use a2a::{
    Binding, Version,
    card::{Card, CardLimits},
    signature,
};
use http::{Method, Request};
use serde_json::{Value, json};

use super::harness::{A2aBench, caller, helper, request, stranger};
use crate::mcp::tests::harness::{Got, Setup};

const CARD: &str = "/a2a/office/helper/.well-known/agent-card.json";

async fn card(bench: &A2aBench, caller: &str, (path, version): (&str, Option<&str>)) -> Got {
    let mut request = Request::get(path).header("host", "localhost:7080");
    if !caller.is_empty() {
        request = request.header("x-agent-name", caller);
    }
    if let Some(version) = version {
        request = request.header("a2a-version", version);
    }
    bench.got(request.body(axum::body::Body::empty()).unwrap()).await
}

fn parsed(got: &Got) -> Card {
    Card::parse(got.text.as_bytes(), &CardLimits::default()).unwrap()
}

#[tokio::test]
async fn card_has_addresses_of_the_gateway_only() {
    let bench = A2aBench::start([]).await;
    let got = card(&bench, "a", (CARD, None)).await;
    assert_eq!(got.status, 200, "{got:?}");
    let url = "http://localhost:7080/a2a/office/helper";
    let card = parsed(&got);
    for version in [Version::V1, Version::V03] {
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            assert_eq!(card.interface(binding, version).unwrap().url, url);
        }
    }
    let grpc = card.interface(Binding::Grpc, Version::V1).unwrap();
    assert_eq!(grpc.url, "http://localhost:7080");
    assert_eq!(grpc.tenant.as_deref(), Some("office/helper"));
    for hidden in ["helper.internal", "9000", "127.0.0.1", "9443", "urn:agentgateway:sbom"] {
        assert!(!got.text.contains(hidden), "{hidden}");
    }
    let capabilities = card.capabilities();
    assert!(capabilities.streaming && !capabilities.push_notifications);
}

#[tokio::test]
async fn card_has_the_shape_of_its_version() {
    let bench = A2aBench::start([]).await;
    let has = |got: &Got| {
        let card = got.json();
        (card.get("supportedInterfaces").is_some(), card.get("url").is_some())
    };
    assert_eq!(has(&card(&bench, "a", (CARD, Some("1.0"))).await), (true, false));
    assert_eq!(has(&card(&bench, "a", (CARD, Some("0.3"))).await), (false, true));
    assert_eq!(has(&card(&bench, "a", (CARD, None)).await), (true, true));
    let legacy = "/a2a/office/helper/.well-known/agent.json";
    assert_eq!(has(&card(&bench, "a", (legacy, None)).await), (false, true));
    assert_eq!(card(&bench, "a", (CARD, Some("9.9"))).await.status, 400);
}

#[tokio::test]
async fn card_is_cached_by_tag_and_signed() {
    let url = Some("https://gateway.example".to_owned());
    let bench = A2aBench::start_with(Setup { a2a_url: url, ..Setup::default() }, []).await;
    let first = card(&bench, "a", (CARD, Some("1.0"))).await;
    let tag = first.headers["etag"].clone();
    assert!(first.headers.contains_key("last-modified"));
    let mut again = request(Version::V1, (Method::GET, CARD), ("a", &Value::Null));
    again.headers_mut().insert("if-none-match", tag);
    let again = bench.got(again).await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    let keys = card(&bench, "", ("/.well-known/jwks.json", None)).await;
    let keys = serde_json::from_str(&keys.text).unwrap();
    signature::verify(&first.json(), &keys).unwrap();
    let mut changed = first.json();
    changed["description"] = json!("Other.");
    assert!(signature::verify(&changed, &keys).is_err());
}

#[tokio::test]
async fn card_with_address_of_host_is_unsigned() {
    let bench = A2aBench::start([]).await;
    for (caller, path) in [("a", CARD), ("", "/.well-known/agent-card.json")] {
        for version in [Some("1.0"), Some("0.3"), None] {
            let got = card(&bench, caller, (path, version)).await;
            assert_eq!(got.status, 200, "{got:?}");
            assert!(got.json().get("signatures").is_none(), "{path} {version:?}");
        }
    }
}

#[tokio::test]
async fn card_of_undeclared_agent_is_not_found() {
    let bench = A2aBench::start([]).await;
    assert_eq!(card(&bench, "stranger", (CARD, None)).await.status, 404);
    let ghost = "/a2a/ghost/.well-known/agent-card.json";
    assert_eq!(card(&bench, "a", (ghost, None)).await.status, 404);
}

#[tokio::test]
async fn configured_url_is_in_cards() {
    let url = Some("https://gateway.example/base".to_owned());
    let bench = A2aBench::start_with(Setup { a2a_url: url, ..Setup::default() }, []).await;
    let of_agent = parsed(&card(&bench, "a", (CARD, None)).await);
    let expected = "https://gateway.example/base/a2a/office/helper";
    assert_eq!(of_agent.interface(Binding::JsonRpc, Version::V1).unwrap().url, expected);
    for path in ["/.well-known/agent-card.json", "/a2a/.well-known/agent-card.json"] {
        let of_gateway = parsed(&card(&bench, "", (path, None)).await);
        let interface = of_gateway.interface(Binding::HttpJson, Version::V1).unwrap();
        assert_eq!(interface.url, "https://gateway.example/base/a2a", "{path}");
        let grpc = of_gateway.interface(Binding::Grpc, Version::V1).unwrap();
        assert_eq!((grpc.url.as_str(), grpc.tenant), ("https://gateway.example", None), "{path}");
    }
}

#[tokio::test]
async fn extended_card_needs_the_capability() {
    let bench = A2aBench::start([]).await;
    let got = bench.rpc("a", "GetExtendedAgentCard", json!({})).await;
    assert_eq!(got.error(), (200, -32004));
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "GetExtendedAgentCard" });
    let got = bench.got(request(Version::V1, (Method::POST, "/a2a"), ("a", &body))).await;
    assert_eq!(got.error(), (200, -32004), "the gateway itself has none");
}

#[tokio::test]
async fn absent_extended_card_has_error_of_version() {
    let bench = A2aBench::start([]).await;
    let old = json!({ "jsonrpc": "2.0", "id": 7, "method": "agent/getAuthenticatedExtendedCard" });
    for path in ["/a2a/office/helper", "/a2a"] {
        let got = bench.got(request(Version::V03, (Method::POST, path), ("a", &old))).await;
        assert_eq!(got.error(), (200, -32007), "{path}");
        let info = &got.json()["error"]["data"][0];
        assert_eq!(info["reason"], "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "{path}");
        assert_eq!(info["domain"], "a2a-protocol.org", "{path}");
    }
    let get = |version, path| request(version, (Method::GET, path), ("a", &Value::Null));
    let got = bench.got(get(Version::V03, "/a2a/office/helper/v1/card")).await;
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["code"], -32007);
    assert_eq!(got.json()["type"], "AuthenticatedExtendedCardNotConfiguredError");
    let got = bench.got(get(Version::V1, "/a2a/office/helper/extendedAgentCard")).await;
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["details"][0]["reason"], "UNSUPPORTED_OPERATION");
}

#[tokio::test]
async fn extended_card_is_for_identified_callers() {
    let bench = A2aBench::start([]).await;
    let mut extended = helper();
    let capabilities = json!({ "extendedAgentCard": true });
    extended.document["metadata"]["card"]["capabilities"] = capabilities;
    bench.bench.publish(2, vec![extended, caller(), stranger()]);
    let card = bench.rpc("a", "GetExtendedAgentCard", json!({})).await.result();
    assert_eq!(card["skills"][0]["id"], "work", "{card}");
    assert!(!card.to_string().contains("127.0.0.1"), "{card}");
    assert_eq!(bench.rpc("", "GetExtendedAgentCard", json!({})).await.status, 401);
    let undeclared = bench.rpc("stranger", "GetExtendedAgentCard", json!({})).await;
    assert_eq!(undeclared.status, 404);
}

#[tokio::test]
async fn head_of_card_has_headers_of_get() {
    let bench = A2aBench::start([]).await;
    for path in [CARD, "/a2a/.well-known/agent-card.json", "/.well-known/agent-card.json"] {
        let of = |method| bench.got(request(Version::V1, (method, path), ("a", &Value::Null)));
        let (get, head) = (of(Method::GET).await, of(Method::HEAD).await);
        assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""), "{path}");
        assert_eq!(head.headers, get.headers, "{path}");
    }
}
