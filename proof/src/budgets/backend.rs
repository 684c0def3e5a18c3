//! The server behind the gateways. It records each call that it receives.

use std::sync::{Arc, Mutex, PoisonError};

use gateway_testkit::{McpServer, Server};
use history_check::{BudgetEvent, Event};
use registry_core::Amount;
use serde_json::json;

use super::catalog::{BREAK_TOOL, HOLD_TOOL, METER_TOOL, PRICE, TOOLS};
use crate::{
    fleet::{Answer, declined},
    history_writer::HistoryWriter,
    rng::Rng,
};

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
            if tool == BREAK_TOOL {
                return declined(received);
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
            answer.reply(received, &result)
        })
        .await
}
