//! The HTTP endpoint of an agent: JSON-RPC, streams of server-sent events, and the card.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};

use super::hosted_agent::{HostedAgent, Work};
use super::tasks::RunningTask;
use super::wire::{Failure, Message, Operation, Protocol};

/// The routes of an agent.
pub fn router(agent: HostedAgent) -> Router {
    let path = agent.path();
    let card = format!("{path}/.well-known/agent-card.json");
    Router::new()
        .route(path, post(call))
        .route(&format!("{path}/"), post(call))
        .route(&card, get(show_card))
        .with_state(Arc::new(agent))
}

async fn show_card(State(agent): State<Arc<HostedAgent>>, headers: HeaderMap) -> Json<Value> {
    let host = header(&headers, HOST.as_str()).unwrap_or("127.0.0.1");
    Json(agent.card(&format!("http://{host}{}", agent.path())))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A request in the version of the agent.
struct Call {
    operation: Operation,
    params: Value,
}

/// A successful answer.
enum Answer {
    Result(Value),
    /// A reply without a task, as the only event of a stream.
    Event(Value),
    /// A task, with the number of the events before the stream.
    Stream(Arc<RunningTask>, usize),
}

async fn call(State(agent): State<Arc<HostedAgent>>, headers: HeaderMap, body: String) -> Response {
    if let Some(token) = agent.definition.token {
        let expected = format!("Bearer {token}");
        if header(&headers, AUTHORIZATION.as_str()) != Some(expected.as_str()) {
            return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response();
        }
    }
    let Ok(body) = serde_json::from_str::<Value>(&body) else {
        let failure = Failure { code: -32700, message: "the body is not JSON".to_owned() };
        return failed(&Value::Null, &failure);
    };
    let id = body["id"].clone();
    let call = match read(&agent, &headers, body) {
        Ok(call) => call,
        Err(failure) => return failed(&id, &failure),
    };
    match answer(&agent, call).await {
        Ok(Answer::Result(result)) => Json(response(&id, &result)).into_response(),
        Ok(Answer::Event(event)) => events(id, stream::iter([event])),
        Ok(Answer::Stream(task, seen)) => events(id, follow(agent.definition.protocol, task, seen)),
        Err(failure) => failed(&id, &failure),
    }
}

fn read(agent: &HostedAgent, headers: &HeaderMap, mut body: Value) -> Result<Call, Failure> {
    let protocol = agent.definition.protocol;
    let version = header(headers, "a2a-version");
    if !protocol.accepts(version) {
        return Err(Failure::version(version.unwrap_or("0.3")));
    }
    let method = body["method"].as_str().unwrap_or_default();
    let operation = protocol.operation(method).ok_or_else(|| Failure::no_method(method))?;
    Ok(Call { operation, params: body["params"].take() })
}

async fn answer(agent: &HostedAgent, call: Call) -> Result<Answer, Failure> {
    let protocol = agent.definition.protocol;
    let Call { operation, params } = call;
    let known = || {
        let id = params["id"].as_str().unwrap_or_default();
        agent.tasks.find(id)
    };
    match operation {
        Operation::Send | Operation::Stream => {
            send(agent, operation, protocol.message(&params)?).await
        }
        Operation::Get => Ok(Answer::Result(protocol.task(&known()?.now().0))),
        Operation::Cancel => {
            let task = known()?;
            task.cancel()?;
            Ok(Answer::Result(protocol.task(&task.now().0)))
        }
        Operation::Subscribe => {
            let task = known()?;
            let (now, seen) = task.now();
            if now.state.is_final() {
                return Err(Failure::unsupported(format!("the task {} has ended", now.id)));
            }
            Ok(Answer::Stream(task, seen))
        }
    }
}

async fn send(
    agent: &HostedAgent,
    operation: Operation,
    message: Message,
) -> Result<Answer, Failure> {
    let protocol = agent.definition.protocol;
    if let Some(id) = &message.task_id {
        agent.tasks.find(id)?;
        return Err(Failure::unsupported("the tasks of this agent take no further messages"));
    }
    let skill = match &message.skill {
        None => agent.skills().first(),
        Some(id) => agent.skills().iter().find(|skill| skill.id == id),
    };
    let skill = skill.ok_or_else(|| Failure::invalid("the agent has no such skill"))?;
    let work = (skill.plan)(&message.input)?;
    let context = || format!("context-{}", agent.tasks.number());
    let context_id = message.context_id.unwrap_or_else(context);
    let task = match work {
        Work::Reply(part) => {
            let id = format!("message-{}", agent.tasks.number());
            let reply = protocol.reply(&id, &context_id, &part);
            let is_stream = operation == Operation::Stream;
            return Ok(if is_stream { Answer::Event(reply) } else { Answer::Result(reply) });
        }
        Work::Task(steps) => agent.tasks.start(context_id, steps),
    };
    if operation == Operation::Stream {
        return Ok(Answer::Stream(task, 0));
    }
    if message.is_blocking {
        task.ended().await;
    }
    Ok(Answer::Result(protocol.sent_task(&task.now().0)))
}

/// The task, followed by its events.
fn follow(
    protocol: Protocol,
    task: Arc<RunningTask>,
    seen: usize,
) -> impl Stream<Item = Value> + Send {
    let first = stream::iter([protocol.sent_task(&task.after(seen))]);
    let rest = stream::unfold(seen, move |seen| {
        let task = Arc::clone(&task);
        async move {
            let event = task.next(seen).await?;
            Some((protocol.event(&event, &task.after(seen + 1)), seen + 1))
        }
    });
    first.chain(rest)
}

fn events(id: Value, results: impl Stream<Item = Value> + Send + 'static) -> Response {
    let lines = results
        .map(move |result| Ok::<_, Infallible>(format!("data: {}\n\n", response(&id, &result))));
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(lines)).into_response()
}

fn response(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn failed(id: &Value, failure: &Failure) -> Response {
    let error = json!({ "code": failure.code, "message": failure.message });
    Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response()
}
