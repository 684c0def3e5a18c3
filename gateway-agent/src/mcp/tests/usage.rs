//! The usage that calls count, through the endpoint.

use serde_json::json;

use super::harness::{Bench, Setup};
use crate::testing::{agent, policy, server, tool};

/// A tool that an agent declares, and a policy.
async fn bench(members: serde_json::Value) -> Bench {
    let entities = vec![
        server("up", &["pay"], &[]),
        tool("pay", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("pay", "1.0.0")]),
        policy("costs", members),
    ];
    Bench::start(Setup::default(), entities).await
}

fn row(agent: &str, tool: &str, verdict: &str) -> (String, String, String, u64, i64) {
    (agent.to_owned(), tool.to_owned(), verdict.to_owned(), 1, 0)
}

#[tokio::test]
async fn admitted_and_denied_calls_are_counted() {
    let budget = json!({ "name": "b", "per": "agent", "limit": "0.03", "window": "total" });
    let bench = bench(json!({ "price": { "perCall": "0.015" }, "budgets": [budget] })).await;
    for _ in 0..3 {
        bench.call("a", "pay", json!({})).await;
    }
    let rows = bench.usage(3).await;
    let (mut admitted, denied) =
        (row("a", "pay", "allow"), row("a", "pay", "deny:BUDGET_EXCEEDED"));
    (admitted.3, admitted.4) = (2, 30_000);
    assert_eq!(rows, [admitted, denied]);
}

#[tokio::test]
async fn callers_choose_no_names_in_usage() {
    let bench = bench(json!({})).await;
    bench.call("a", "invented", json!({})).await;
    bench.call("unregistered", "pay", json!({})).await;
    let rows = bench.usage(2).await;
    let names: Vec<_> = rows.iter().map(|(agent, tool, ..)| (&**agent, &**tool)).collect();
    assert!(names.contains(&("a", "(unknown)")), "{rows:?}");
    let known = ["a", "pay", "(unknown)"];
    assert!(names.iter().all(|(agent, tool)| known.contains(agent) && known.contains(tool)));
}

#[tokio::test]
async fn usage_has_team_duration_and_sizes() {
    let bench = bench(json!({})).await;
    bench.call("a", "pay", json!({})).await;
    let usage = bench.gateway.usage().unwrap();
    super::relayed::acceptable(|| usage.buffer().pending_calls() == 1).await;
    let report = usage.next_report().unwrap();
    let row = &report.rows[0];
    assert_eq!((&*row.key.caller.team, &*row.key.caller.principal), ("test", "(unknown)"));
    assert!(!row.totals.duration.is_zero());
    assert!(row.totals.request_bytes > 0 && row.totals.response_bytes > 0);
}
