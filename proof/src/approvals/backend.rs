//! The server behind the gateways. It records each call that it receives, and asks for input with a
//! unique state.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use gateway_testkit::{McpServer, Received, Reply, Server};
use history_check::{ApprovalEvent, Event};
use serde_json::json;

use super::{
    buyer::CALL,
    catalog::{ASK_TOOL, TOOLS},
};
use crate::{fleet::Answer, history_writer::HistoryWriter, rng::Rng};

pub(super) async fn start(seed: u64, history: Arc<HistoryWriter>) -> Server {
    let rng = Rng::new(seed, "backend");
    let tool = Mutex::new(Tool { history, rng, questions: BTreeSet::new() });
    let server = McpServer::modern().with_tool_names(&TOOLS);
    server
        .start(move |received| match received.rpc_method() {
            "tools/call" => tool.lock().unwrap_or_else(PoisonError::into_inner).reply(received),
            _ => received.unknown_method(),
        })
        .await
}

struct Tool {
    history: Arc<HistoryWriter>,
    rng: Rng,
    /// The states of all questions.
    questions: BTreeSet<String>,
}

impl Tool {
    fn reply(&mut self, received: &Received) -> Reply {
        let params = &received.body["params"];
        let state = params["requestState"].as_str().map(str::to_owned);
        let is_continued = state.as_ref().is_some_and(|state| self.questions.contains(state));
        let percent = if is_continued { 30 } else { 80 };
        let asks = (params["name"] == ASK_TOOL && self.rng.chance(percent))
            .then(|| format!("question-{}", self.questions.len()));
        let state_of_trace = params["_meta"]["tracestate"].as_str().unwrap_or_default();
        let call =
            state_of_trace.split(',').find_map(|member| member.trim_start().strip_prefix(CALL));
        let approval = ApprovalEvent::Executed {
            call: call.unwrap_or_default().to_owned(),
            arguments: params["arguments"].clone(),
            state,
            asks: asks.clone(),
        };
        self.history.note("backend", Event::Approval { approval });
        if let Some(state) = asks {
            let asked = json!({ "resultType": "input_required", "requestState": state });
            self.questions.insert(state);
            return received.result(&asked);
        }
        let arguments = &params["arguments"];
        let result =
            json!({ "resultType": "complete", "content": [], "structuredContent": arguments });
        Answer::pick(&mut self.rng).reply(received, &result)
    }
}
