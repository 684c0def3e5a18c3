//! The server behind the gateways. It records each call that it receives, and answers some late, with
//! an error, or never in time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use gateway_testkit::{McpServer, Server, late};
use history_check::{BudgetEvent, Event};
use registry_core::Amount;
use serde_json::json;

use super::catalog::{BREAK_TOOL, HOLD_TOOL, METER_TOOL, PRICE, TOOLS};
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
            let tool = received.body["params"]["name"].as_str().unwrap_or_default();
            let call = received.body["params"]["arguments"]["id"].as_str().unwrap_or_default();
            let declined =
                || received.error(200, &json!({ "code": -32_000, "message": "declined" }));
            if tool == BREAK_TOOL {
                return declined();
            }
            let note = |budget| history.note("backend", Event::Budget { budget });
            let is_priced = tool != HOLD_TOOL;
            if is_priced {
                note(BudgetEvent::Executed { call: call.to_owned() });
            }
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = Answer::pick(&mut rng);
            let mut result = json!({
                "resultType": "complete", "content": [], "structuredContent": { "id": call },
            });
            if tool == METER_TOOL && answer.is_result() {
                let price = PRICE / *rng.pick(&[2, 3, 5]);
                result["_meta"] = json!({ "cost": Amount::from_micros(price).to_string() });
                note(BudgetEvent::Reported { call: call.to_owned(), price });
            }
            match answer {
                Answer::Prompt => received.result(&result),
                Answer::Late(delay) => late(delay, received.result(&result)),
                Answer::Declined => declined(),
            }
        })
        .await
}

/// The answer to a call.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Prompt,
    Late(Duration),
    Declined,
}

impl Answer {
    fn pick(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..75 => Self::Prompt,
            75..94 => Self::Late(Duration::from_millis(rng.between(5, 250))),
            94..98 => Self::Declined,
            // The outcome is unknown to the gateway.
            _ => Self::Late(Duration::from_millis(3 * CALL_TIMEOUT_MS)),
        }
    }

    /// Whether the gateway receives a result in time.
    fn is_result(self) -> bool {
        match self {
            Self::Prompt => true,
            Self::Late(delay) => delay < Duration::from_millis(CALL_TIMEOUT_MS),
            Self::Declined => false,
        }
    }
}
