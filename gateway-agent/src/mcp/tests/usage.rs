//! The usage that calls count, through the endpoint.

use serde_json::{Value, json};

use super::{
    harness::{Bench, Setup},
    relayed::acceptable,
};
use crate::testing::{agent, policy, server, tool};

/// A tool that an agent declares, and a policy.
async fn bench(members: Value) -> Bench {
    let entities = vec![
        server("up", &["pay"], &[]),
        tool("pay", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("pay", "1.0.0")]),
        policy("costs", members),
    ];
    Bench::start(Setup::default(), entities).await
}

#[tokio::test]
async fn admitted_and_denied_calls_are_counted() {
    let budget = json!({ "name": "b", "per": "agent", "limit": "0.03", "window": "total" });
    let bench = bench(json!({ "price": { "perCall": "0.015" }, "budgets": [budget] })).await;
    for _ in 0..3 {
        bench.call("a", "pay", json!({})).await;
    }
    let expected = ["a pay allow 2 0.03", "a pay deny:BUDGET_EXCEEDED 1 0"];
    assert_eq!(bench.usage(3).await, expected);
}

#[tokio::test]
async fn callers_choose_no_names_in_usage() {
    let bench = bench(json!({})).await;
    bench.call("a", "invented", json!({})).await;
    bench.call("unregistered", "pay", json!({})).await;
    let rows = bench.usage(2).await;
    let names: Vec<_> = rows.iter().map(|row| row.split(' ').take(2).collect::<Vec<_>>()).collect();
    assert!(names.contains(&vec!["a", "(unknown)"]), "{rows:?}");
    let known = ["a", "pay", "(unknown)"];
    assert!(names.concat().iter().all(|name| known.contains(name)), "{rows:?}");
}

#[tokio::test]
async fn usage_has_team_duration_and_sizes() {
    let bench = bench(json!({})).await;
    bench.call("a", "pay", json!({})).await;
    let usage = bench.gateway.usage().unwrap();
    acceptable(|| usage.buffer().pending_calls() == 1).await;
    let report = usage.next_report().unwrap();
    let row = &report.rows[0];
    assert_eq!((&*row.key.caller.team, &*row.key.caller.principal), ("test", "(unknown)"));
    assert!(!row.totals.duration.is_zero());
    assert!(row.totals.request_bytes > 0 && row.totals.response_bytes > 0);
}
