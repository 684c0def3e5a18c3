//! `bench-agent`: for benchmarks only. It has no state: messages are echoed, and the text of a message
//! of a stream is the number of its events: `1000` for events at once, `1000 paced` for one per
//! millisecond.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::wire::Protocol;

const PATH: &str = "/bench/a2a";
const MAX_EVENTS: u32 = 10_000;
/// The text of a message whose stream has one event and does not end.
const OPEN: &str = "open";
/// The suffix of a number of events that are written one by one, and the time between them.
const PACED: &str = " paced";
const PACE: Duration = Duration::from_millis(1);

/// The routes of the agent.
pub fn router() -> Router {
    let card = format!("{PATH}/.well-known/agent-card.json");
    Router::new().route(PATH, post(call)).route(&card, get(show_card))
}

async fn show_card(headers: HeaderMap) -> Json<Value> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1");
    let skill = json!({ "id": "echo", "name": "Echo", "description": "Echoes", "tags": ["bench"] });
    let mut card = json!({
        "name": "bench-agent", "version": "1.0.0", "description": "For benchmarks only.",
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "capabilities": { "streaming": true }, "skills": [skill],
    });
    Protocol::V1.add_interface(&mut card, &format!("http://{host}{PATH}"));
    Json(card)
}

async fn call(Json(body): Json<Value>) -> Response {
    let id = body["id"].clone();
    let text = body["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    match body["method"].as_str() {
        Some("SendMessage") => {
            let message = json!({ "messageId": "reply", "role": "ROLE_AGENT",
                "parts": [{ "text": text }] });
            Json(response(&id, &json!({ "message": message }))).into_response()
        }
        Some("SendStreamingMessage") => events(&id, text),
        _ => {
            let error = json!({ "code": -32001, "message": "no such task" });
            Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response()
        }
    }
}

/// A task with its artifact in pieces. Each event is a chunk of the body.
fn events(id: &Value, text: &str) -> Response {
    let ids = json!({ "taskId": "task", "contextId": "context" });
    let working = json!({ "id": "task", "contextId": "context",
        "status": { "state": "TASK_STATE_WORKING" } });
    let (mut piece, mut last) = (ids.clone(), ids);
    piece["artifact"] =
        json!({ "artifactId": "text", "parts": [{ "text": "a few words of a longer text " }] });
    piece["append"] = true.into();
    last["status"] = json!({ "state": "TASK_STATE_COMPLETED" });
    let line = |result: Value| format!("data: {}\n\n", response(id, &result));
    let first = line(json!({ "task": working }));
    let piece = line(json!({ "artifactUpdate": piece }));
    let last = line(json!({ "statusUpdate": last }));
    let (text, is_paced) = text.strip_suffix(PACED).map_or((text, false), |count| (count, true));
    let count = text.parse::<u32>().unwrap_or(1).min(MAX_EVENTS);
    let first = stream::iter([first]);
    let events = if text == OPEN {
        first.chain(stream::pending()).left_stream()
    } else {
        let pieces = stream::iter((0..count).map(move |_| piece.clone()));
        let pieces = pieces.then(move |piece| async move {
            if is_paced {
                sleep(PACE).await;
            }
            piece
        });
        first.chain(pieces).chain(stream::iter([last])).right_stream()
    };
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn response(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}
