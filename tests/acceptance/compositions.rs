//! The example's compositions from registration to result, with the demo servers behind them.
//!
//! Deliberately absent: patterns one by one; the gateway's own tests have those.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry, eventually};
use serde_json::{Value, json};

use crate::page;

async fn scene() -> (Registry, Backend, Gateway) {
    let (registry, backend) = (Registry::start(), Backend::start());
    registry.apply_example();
    let gateway = Gateway::start(&GatewayOptions {
        source: registry.url().replace("http", "grpc"),
        targets: backend.targets(),
        runtime: Some("{ inputValidation: deny, outputValidation: deny }".to_owned()),
        more: String::new(),
    });
    gateway.ready().await;
    (registry, backend, gateway)
}

/// A product of the demo servers.
const PRODUCT: &str = "prod-1";

fn order(id: &str, token: &str) -> Value {
    json!({
        "orderId": id, "customerId": "c-1", "totalAmount": 59.8, "currency": "EUR",
        "items": [{ "productId": PRODUCT, "quantity": 2 }],
        "paymentMethod": { "type": "credit_card", "token": token },
        "shippingAddress": { "street": "1 Main St", "city": "London",
            "zipCode": "N1", "country": "GB" },
    })
}

#[tokio::test]
async fn the_example_s_compositions_run() {
    let (_registry, _backend, gateway) = scene().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the servers are reached", || async {
        !client.call("list_users", json!({})).await.is_tool_error()
    })
    .await;
    let value = async |tool: &str, arguments: Value| {
        let answer = client.call(tool, arguments).await;
        assert!(!answer.is_tool_error(), "{answer:?}");
        answer.result()["structuredContent"].clone()
    };
    let stored = value("fetch_and_store", json!({ "url": "https://example.com" })).await;
    assert_eq!(stored["title"], "Example Domain");

    page::shows("docs/compositions.md", &gateway);
    let found = value("multi_search", json!({ "query": "quantum computing" })).await;
    let ids: Vec<_> =
        found["results"].as_array().expect("a list").iter().map(|r| &r["id"]).collect();
    let is_of =
        |prefix: &str| ids.iter().any(|id| id.as_str().is_some_and(|id| id.starts_with(prefix)));
    assert!(is_of("doc-") && is_of("user-"), "documents and people: {ids:?}");

    let user = value("list_users", json!({})).await["users"][0]["id"].clone();
    let both = value("create_task_and_notify", json!({ "title": "Look", "assignee": user })).await;
    assert_eq!((&both["task"]["title"], &both["notification"]["userId"]), (&json!("Look"), &user));
}

#[tokio::test]
async fn an_order_completes_or_leaves_nothing_behind() {
    let (_registry, _backend, gateway) = scene().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let stock = async || {
        let answer = client.call("inventory_check", json!({ "productId": PRODUCT })).await;
        answer.result()["structuredContent"]["products"][0]["available"].clone()
    };
    eventually("the servers are reached", || async {
        !client.call("inventory_check", json!({ "productId": PRODUCT })).await.is_tool_error()
    })
    .await;
    let before = stock().await;
    let declined = client.call("process_order", order("o-1", "tok_declined")).await;
    assert!(declined.is_tool_error(), "{declined:?}");
    assert!(declined.text().contains("the saga failed at `charge_payment`"), "{declined:?}");
    assert_eq!(stock().await, before, "what was reserved is released");

    let done = client.call("process_order", order("o-2", "tok_ok")).await;
    assert!(!done.is_tool_error(), "{done:?}");
    let result = &done.result()["structuredContent"];
    assert_eq!(result["status"], "completed");
    assert!(result["trackingNumber"].is_string(), "{result}");
    assert_ne!(stock().await, before);
    let again = client.call("process_order", order("o-2", "tok_ok")).await;
    assert_eq!(&again.result()["structuredContent"], result, "an order is done once");
}
