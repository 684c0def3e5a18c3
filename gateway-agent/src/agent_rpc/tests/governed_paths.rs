//! A call is governed, and its denial has the code and the data of `tools/call`.

use serde_json::json;

use super::harness::{called, start};
use crate::testing::policy;

#[tokio::test]
async fn execute_is_governed() {
    let cedar = "forbid (principal, action, resource);";
    let closed = policy("closed", json!({ "authorization": { "cedar": cedar } }));
    let bench = start([closed]).await;
    let answer = called(&bench, "echo", "{}").await;
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32003), &json!("UNAUTHORIZED")),
        "{answer}"
    );
    assert_eq!(error["data"]["error"]["details"]["policy"], "closed", "{answer}");
    assert!(bench.calls().is_empty());
}
