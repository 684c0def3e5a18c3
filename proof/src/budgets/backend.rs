//! The server behind the gateways. It records each call that it receives, and answers some late, with
//! an error, or never in time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use gateway_testkit::{McpServer, Reply, Server, late};
use history_check::{BudgetEvent, Event};
use serde_json::json;

use super::catalog::TOOLS;
use crate::{history_writer::HistoryWriter, rng::Rng};

/// The time limit of a call at the gateways, in milliseconds.
pub(super) const CALL_TIMEOUT_MS: u64 = 700;

pub(super) async fn start(seed: u64, history: Arc<HistoryWriter>) -> Server {
    let rng = Mutex::new(Rng::new(seed, "backend"));
    let server = McpServer::modern().with_tool_names(&TOOLS);
    server
        .start(move |received| {
            if received.rpc_method() != "tools/call" {
                return received.unknown_method();
            }
            let call = received.body["params"]["arguments"]["id"].as_str().unwrap_or_default();
            let budget = BudgetEvent::Executed { call: call.to_owned() };
            history.note("backend", Event::Budget { budget });
            let result = received.result(&json!({
                "resultType": "complete", "content": [], "structuredContent": { "id": call },
            }));
            let declined =
                || received.error(200, &json!({ "code": -32_000, "message": "declined" }));
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            answer(&mut rng, result, declined)
        })
        .await
}

fn answer(rng: &mut Rng, result: Reply, declined: impl Fn() -> Reply) -> Reply {
    match rng.below(100) {
        0..75 => result,
        75..94 => late(Duration::from_millis(rng.between(5, 250)), result),
        94..98 => declined(),
        // The outcome is unknown to the gateway.
        _ => late(Duration::from_millis(3 * CALL_TIMEOUT_MS), result),
    }
}
