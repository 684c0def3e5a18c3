//! Operations of A2A in the pipeline, at one scripted agent.

use std::sync::{Arc, Mutex};

use a2a::{
    ErrorKind, Failure, Operation, Request,
    extensions::{EXTENSIONS_HEADER, Extensions},
};
use gateway_policy::{CallerIdentity, Denial};
use gateway_protocol::mcp::Era;
use gateway_testkit::{Received, Reply, Server};
use gateway_upstream::RequestContext;
use http::{HeaderMap, HeaderValue};
use registry_core::{Kind, Name};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    audit::CallRecord,
    identity::authenticator::Authentication,
    mcp::tests::harness::{Bench, Setup, http},
    pipeline::{AgentCall, Error, Invocation, Output, PushRole, RequestedAgent, Target, invoke},
    testing::{Registered, agent_with, policy},
};

/// A skill for objects with the number `n`, and its result with the text `made`.
fn skill(id: &str) -> Value {
    json!({ "id": id, "name": id, "description": "d", "tags": [],
        "inputSchema": { "type": "object", "required": ["n"],
            "properties": { "n": { "type": "integer" } } },
        "outputSchema": { "type": "object", "properties": { "made": { "type": "string" } } } })
}

/// A caller that declares these skills of `helper`.
fn caller(name: &str, skills: &[&str]) -> Registered {
    let depends: Vec<_> = skills
        .iter()
        .map(|skill| {
            json!({ "type": "agent", "name": "helper", "version": "1.0.0", "skill": skill })
        })
        .collect();
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
    agent_with(name, json!({ "capabilities": { "extensions": [sbom] } }))
}

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let helper = json!({ "skills": [skill("make"), skill("other")],
        "defaultInputModes": ["application/json"], "capabilities": { "streaming": true } });
    let mut entities = vec![
        agent_with("helper", helper),
        caller("a", &["make"]),
        caller("b", &["make", "other"]),
        caller("stranger", &[]),
    ];
    entities.extend(policies);
    entities
}

/// The agent: its answers have the data of the message, and `asked` all received parameters.
#[derive(Clone, Default)]
struct Script {
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Script {
    fn reply(&self, seen: &Received) -> Reply {
        let params = &seen.body["params"];
        if params["id"] == "none" {
            return seen.error(200, &Failure::task_not_found("none").to_json_rpc());
        }
        let asked = json!({ "method": seen.rpc_method(), "params": params });
        self.asked.lock().unwrap().push(asked);
        let made = &params["message"]["parts"][0]["data"]["say"];
        let id = match &params["message"]["parts"][0]["data"]["id"] {
            Value::Null => json!("made"),
            id => id.clone(),
        };
        let artifact_of = |parts: Value| json!({ "artifactId": id, "parts": parts });
        // Texts that the agent splits.
        let texts: Vec<_> = made.as_str().unwrap_or_default().split('|').collect();
        let artifact = artifact_of(match texts.as_slice() {
            [] | [_] => json!([{ "data": { "made": made } }]),
            texts => texts.iter().map(|text| json!({ "text": text })).collect(),
        });
        let context = params["message"]["contextId"].as_str().unwrap_or("context-1");
        let status = json!({ "state": "TASK_STATE_COMPLETED" });
        let task = json!({ "id": "task-00001", "contextId": context, "status": status,
            "artifacts": [artifact] });
        match seen.rpc_method() {
            "SendMessage" => seen.result(&json!({ "task": task })),
            "GetTask" => {
                let mut task = task;
                task["artifacts"] = json!([]);
                seen.result(&task)
            }
            "SendStreamingMessage" => {
                let ids = |mut update: Value| {
                    update["taskId"] = "task-00001".into();
                    update["contextId"] = context.into();
                    update
                };
                let chunk = |(at, part): (usize, &Value)| {
                    let update =
                        json!({ "artifact": artifact_of(json!([part])), "append": at > 0 });
                    json!({ "artifactUpdate": ids(update) })
                };
                let parts = artifact["parts"].as_array().into_iter().flatten();
                let mut events: Vec<_> = parts.enumerate().map(chunk).collect();
                events.push(json!({ "statusUpdate": ids(json!({ "status": status })) }));
                let id = seen.body["id"].clone();
                let response = move |event| json!({ "jsonrpc": "2.0", "id": id, "result": event });
                Reply::events(futures_util::stream::iter(events.into_iter().map(response)))
            }
            _ => seen.error(200, &json!({ "code": -32002, "message": "task-00001 has ended" })),
        }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

async fn start(policies: impl IntoIterator<Item = Registered>) -> (Bench, Script) {
    let script = Script::default();
    let scripted = script.clone();
    let server = Server::start(move |seen| scripted.reply(seen)).await;
    let agents = vec![("agent/helper@1.0.0".parse().unwrap(), http(&server))];
    let bench = Bench::start(Setup { agents, ..Setup::default() }, entities(policies)).await;
    (bench, script)
}

/// Runs an operation as a caller. Returns the events and the result.
async fn operate(
    bench: &Bench,
    caller: &str,
    operation: Operation,
    params: Value,
) -> (Vec<Value>, Result<Value, Error>) {
    operate_with(bench, caller, (operation, Extensions::default()), params).await
}

async fn operate_with(
    bench: &Bench,
    caller: &str,
    (operation, extensions): (Operation, Extensions),
    params: Value,
) -> (Vec<Value>, Result<Value, Error>) {
    let Value::Object(params) = params else { panic!("{params}") };
    let (sender, mut receiver) = mpsc::channel(8);
    let name = Name::parse(Kind::Agent, "helper").unwrap();
    let claim = CallerIdentity::Asserted { name: caller.into(), version: None };
    let target = Target::Agent(AgentCall {
        agent: RequestedAgent { name, version: None },
        request: Request::new(operation, params),
        extensions,
        events: Some(sender),
        takes_repeats: false,
        late: None,
        push: PushRole::None,
    });
    let caller = Authentication::without_request(claim);
    let mut call = Invocation::new(caller, target, RequestContext::default());
    let span = bench.gateway.tracer().begin(&call.context.trace);
    let mut record = CallRecord::begin("a2a", Era::Modern, "helper", 0, span);
    let output = Box::pin(invoke(&bench.gateway, &mut call, &mut record)).await;
    drop(call);
    let mut events = Vec::new();
    while let Some(sent) = receiver.recv().await {
        events.push(sent.event.into_value().unwrap());
    }
    (events, output.and_then(Output::into_agent_result))
}

fn message(data: &Value) -> Value {
    let parts = json!([{ "data": data }]);
    json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": parts,
        "metadata": { "skillId": "make" } } })
}

async fn send(bench: &Bench, caller: &str, data: Value) -> Result<Value, Error> {
    operate(bench, caller, Operation::SendMessage, message(&data)).await.1
}

/// The kind of an error of A2A.
fn kind(result: &Result<Value, Error>) -> ErrorKind {
    match result {
        Err(Error::Agent(failure) | Error::Upstream(gateway_upstream::Error::Agent(failure))) => {
            failure.kind
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn declared_skill_is_called_with_own_ids() {
    let (bench, script) = start([]).await;
    let task = send(&bench, "a", json!({ "n": 1, "say": "x" })).await.unwrap()["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"][0]["data"]["made"], "x");
    assert_eq!(script.asked()[0]["params"]["message"]["metadata"]["skillId"], "make");
    assert!(!task.to_string().contains("task-00001") && !task.to_string().contains("context-1"));
    let got = operate(&bench, "a", Operation::GetTask, json!({ "id": task["id"] })).await.1;
    let got = got.unwrap();
    assert_eq!((&got["id"], &got["contextId"]), (&task["id"], &task["contextId"]));
    assert_eq!(script.asked()[1]["params"]["id"], "task-00001");
    let mut again = message(&json!({ "n": 2 }));
    again["message"]["contextId"] = task["contextId"].clone();
    operate(&bench, "a", Operation::SendMessage, again).await.1.unwrap();
    assert_eq!(script.asked()[2]["params"]["message"]["contextId"], "context-1");
}

#[tokio::test]
async fn task_of_other_caller_is_not_found() {
    let (bench, script) = start([]).await;
    let task = send(&bench, "a", json!({ "n": 1 })).await.unwrap()["task"]["id"].clone();
    let sent = script.asked().len();
    for id in [task.clone(), json!("task-00001"), json!("x")] {
        for operation in [Operation::GetTask, Operation::CancelTask, Operation::SubscribeToTask] {
            let got = operate(&bench, "b", operation, json!({ "id": id })).await.1;
            assert_eq!(kind(&got), ErrorKind::TaskNotFound);
        }
        let mut further = message(&json!({ "n": 1 }));
        further["message"]["taskId"] = id;
        let got = operate(&bench, "b", Operation::SendMessage, further).await.1;
        assert_eq!(kind(&got), ErrorKind::TaskNotFound);
    }
    assert_eq!(script.asked().len(), sent);
    let cancel = operate(&bench, "a", Operation::CancelTask, json!({ "id": task })).await.1;
    let Err(Error::Upstream(gateway_upstream::Error::Agent(failure))) = cancel else { panic!() };
    assert_eq!(failure.message, format!("{} has ended", task.as_str().unwrap()));
}

#[tokio::test]
async fn chosen_context_is_bound_to_its_caller() {
    let (bench, script) = start([]).await;
    let mut contexts = Vec::new();
    for caller in ["a", "b", "a"] {
        let mut params = message(&json!({ "n": 1 }));
        params["message"]["contextId"] = "mine".into();
        let task = operate(&bench, caller, Operation::SendMessage, params).await.1.unwrap();
        assert_eq!(task["task"]["contextId"], "mine");
        contexts.push(script.asked().pop().unwrap()["params"]["message"]["contextId"].clone());
    }
    assert_eq!(contexts[0], contexts[2]);
    assert_ne!(contexts[0], contexts[1]);
    assert!(contexts.iter().all(|context| *context != "mine"));
}

#[tokio::test]
async fn undeclared_skills_and_agents_do_not_exist() {
    let (bench, script) = start([]).await;
    let got = send(&bench, "stranger", json!({ "n": 1 })).await;
    assert!(matches!(got, Err(Error::Denied(Denial::UndeclaredDependency))), "{got:?}");
    let mut other = message(&json!({ "n": 1 }));
    other["message"]["metadata"]["skillId"] = "other".into();
    let got = operate(&bench, "a", Operation::SendMessage, other.clone()).await.1;
    assert_eq!(kind(&got), ErrorKind::InvalidParams);
    other["message"]["metadata"] = json!({});
    let got = operate(&bench, "b", Operation::SendMessage, other.clone()).await.1;
    assert_eq!(kind(&got), ErrorKind::InvalidParams, "two skills match");
    assert!(script.asked().is_empty());
    operate(&bench, "a", Operation::SendMessage, other).await.1.unwrap();
    let sent = &script.asked()[0]["params"]["message"]["metadata"];
    assert_eq!(sent["skillId"], "make", "the only visible skill");
}

#[tokio::test]
async fn invalid_data_is_rejected_with_pointer_into_message() {
    let (bench, script) = start([]).await;
    let got = send(&bench, "a", json!({ "n": "x" })).await;
    let Err(Error::InvalidInput { violations }) = got else { panic!("{got:?}") };
    assert_eq!(violations[0].pointer, "/message/parts/0/data/n");
    let mut text = message(&json!({}));
    text["message"]["parts"] = json!([{ "raw": "AA==", "mediaType": "image/png" }]);
    let got = operate(&bench, "a", Operation::SendMessage, text).await.1;
    assert_eq!(kind(&got), ErrorKind::ContentTypeNotSupported);
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn stream_is_inspected_and_translated_per_event() {
    let inspection = json!({ "inspection": { "results": { "contact": "redact" } } });
    let (bench, _script) = start([policy("inspect", inspection)]).await;
    let data = json!({ "n": 1, "say": "write to jane.doe@acme-bank.org" });
    let params = message(&data);
    let (events, result) = operate(&bench, "a", Operation::SendStreamingMessage, params).await;
    assert_eq!(result.unwrap(), Value::Null);
    let [artifact, status] = events.as_slice() else { panic!("{events:?}") };
    let made = &artifact["artifactUpdate"]["artifact"]["parts"][0]["data"]["made"];
    assert_eq!(*made, "write to [redacted:contact]");
    assert_eq!(artifact["artifactUpdate"]["taskId"], status["statusUpdate"]["taskId"]);
    assert!(!artifact.to_string().contains("task-00001"));
    assert_eq!(artifact["artifactUpdate"]["artifact"]["artifactId"], "made");
}

#[tokio::test]
async fn value_that_spans_events_is_inspected() {
    let data = json!({ "n": 1, "say": "write to jane.doe@acme|-bank.org" });
    let inspection = |action: &str| {
        policy("inspect", json!({ "inspection": { "results": { "contact": action } } }))
    };
    let (bench, _script) = start([inspection("redact")]).await;
    let params = message(&data);
    let (events, result) = operate(&bench, "a", Operation::SendStreamingMessage, params).await;
    assert_eq!(result.unwrap(), Value::Null);
    let [artifact, _status] = events.as_slice() else { panic!("{events:?}") };
    let text = &artifact["artifactUpdate"]["artifact"]["parts"][0]["text"];
    assert_eq!(*text, "write to [redacted:contact]");
    let (bench, _script) = start([inspection("block")]).await;
    let params = message(&data);
    let (events, result) = operate(&bench, "a", Operation::SendStreamingMessage, params).await;
    assert!(matches!(result, Err(Error::Policy(_))), "{result:?}");
    assert!(events.is_empty(), "{events:?}");
}

#[tokio::test]
async fn values_in_short_chunks_are_redacted() {
    let actions = json!({ "credential": "redact", "financial": "redact", "contact": "redact" });
    let inspection = json!({ "inspection": { "results": actions } });
    let (bench, _script) = start([policy("inspect", inspection)]).await;
    for (say, expected) in [
        (
            "card 4539 5787| 6362 1486 mail bob.spl|it@firma.de",
            "card [redacted:financial] mail [redacted:contact]",
        ),
        ("password: |corre|ctHor|se7Ba|ttery|Stapl|e9 en|d", "password: [redacted:credential] end"),
        (
            "Authorization: Bearer |8f14e4|5fceea|167a5a|36dedd|4bea25|43aa| end",
            "Authorization: Bearer [redacted:credential] end",
        ),
    ] {
        let params = message(&json!({ "n": 1, "say": say }));
        let (events, result) = operate(&bench, "a", Operation::SendStreamingMessage, params).await;
        assert_eq!(result.unwrap(), Value::Null);
        let [artifacts @ .., _status] = events.as_slice() else { panic!("{events:?}") };
        let text = |event: &Value| {
            event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().map(str::to_owned)
        };
        assert_eq!(artifacts.iter().filter_map(text).collect::<String>(), expected);
    }
}

#[tokio::test]
async fn value_that_spans_text_parts_is_inspected() {
    let inspection = |action: &str| {
        policy("inspect", json!({ "inspection": { "results": { "contact": action } } }))
    };
    let data = || json!({ "n": 1, "say": "to x@kestrel.dev|, jane.doe@acme|-bank.org" });
    let parts = |result: Value| result["task"]["artifacts"][0]["parts"].clone();
    let (bench, _script) = start([inspection("redact")]).await;
    let redacted = parts(send(&bench, "a", data()).await.unwrap());
    let expected = "to [redacted:contact], [redacted:contact]";
    assert_eq!(redacted, json!([{ "text": "" }, { "text": "" }, { "text": expected }]));
    let (bench, _script) = start([inspection("log")]).await;
    let logged = parts(send(&bench, "a", data()).await.unwrap());
    let expected = ["to x@kestrel.dev", ", jane.doe@acme", "-bank.org"];
    assert_eq!(logged, json!(expected.map(|text| json!({ "text": text }))));
    let (bench, _script) = start([inspection("block")]).await;
    let data = json!({ "n": 1, "say": "jane.doe@acme|-bank.org" });
    let blocked = send(&bench, "a", data).await;
    assert!(matches!(blocked, Err(Error::Policy(_))), "{blocked:?}");
}

#[tokio::test]
async fn parameters_of_all_operations_are_inspected() {
    const CARD: &str = "card 4111 1111 1111 1111";
    let inspection = json!({ "inspection": { "arguments": { "financial": "block" },
        "results": { "contact": "tokenize" } } });
    let (bench, script) = start([policy("inspect", inspection)]).await;
    let task = send(&bench, "a", json!({ "n": 1 })).await.unwrap()["task"]["id"].clone();
    for operation in [Operation::GetTask, Operation::CancelTask, Operation::SubscribeToTask] {
        for (member, value) in [
            ("metadata", json!({ "z": CARD })),
            ("unknown", json!(CARD)),
            ("unknown", json!({ CARD: 1 })),
        ] {
            let params = json!({ "id": task, member: value });
            let got = operate(&bench, "a", operation, params).await.1;
            assert!(matches!(got, Err(Error::Policy(_))), "{operation:?} {got:?}");
        }
        let params = json!({ "id": task, "metadata": { "z": "[[contact:000000]]" } });
        let got = operate(&bench, "a", operation, params).await.1;
        assert!(matches!(got, Err(Error::UnknownPlaceholder { .. })), "{operation:?} {got:?}");
    }
    let mut named = message(&json!({ "n": 1 }));
    named["message"]["messageId"] = CARD.into();
    let got = operate(&bench, "a", Operation::SendMessage, named).await.1;
    assert!(matches!(got, Err(Error::Policy(_))), "{got:?}");
    let mut headers = HeaderMap::new();
    let uri = HeaderValue::from_static("https://x.de/card/4111111111111111");
    headers.insert(EXTENSIONS_HEADER, uri);
    for (operation, params) in [
        (Operation::SendMessage, message(&json!({ "n": 1 }))),
        (Operation::GetTask, json!({ "id": task })),
    ] {
        let extended = (operation, Extensions::of_headers(&headers));
        let got = operate_with(&bench, "a", extended, params).await.1;
        assert!(matches!(got, Err(Error::Policy(_))), "{operation:?} {got:?}");
    }
    assert_eq!(script.asked().len(), 1);
    let params = json!({ "id": task, "historyLength": 1 });
    operate(&bench, "a", Operation::GetTask, params).await.1.unwrap();
    assert_eq!(script.asked()[1]["params"], json!({ "id": "task-00001", "historyLength": 1 }));
}

#[tokio::test]
async fn ids_of_artifacts_are_inspected() {
    const MAIL: &str = "jane.doe@acme-bank.org";
    let inspection = json!({ "inspection": { "results": { "contact": "redact" } } });
    let (bench, _script) = start([policy("inspect", inspection)]).await;
    let data = |id: Value| json!({ "n": 1, "say": "x", "id": id });
    let got = send(&bench, "a", data(MAIL.into())).await;
    assert!(matches!(got, Err(Error::Policy(_))), "{got:?}");
    let params = message(&data(MAIL.into()));
    let (events, got) = operate(&bench, "a", Operation::SendStreamingMessage, params).await;
    assert!(matches!(got, Err(Error::Policy(_))) && events.is_empty(), "{got:?} {events:?}");
    let got = send(&bench, "a", data(json!({ "x": MAIL }))).await.unwrap();
    assert_eq!(got["task"]["artifacts"][0]["artifactId"]["x"], "[redacted:contact]");
    assert!(got["task"]["id"].as_str().is_some_and(|id| !id.contains("task-00001")));
}

#[tokio::test]
async fn policies_govern_messages_like_tools() {
    let blocks = json!({ "inspection": { "arguments": { "contact": "block" } } });
    let forbids = json!({ "authorization": { "cedar":
        "forbid (principal, action == Action::\"send\", resource) \
         when { context.arguments has n && context.arguments.n > 5 };" } });
    let rates = json!({ "rates": [{ "limit": 1, "window": "PT1M" }] });
    let fine = || json!({ "n": 1 });
    for (members, data) in [
        (blocks, json!({ "n": 1, "say": "jane.doe@acme-bank.org" })),
        (forbids, json!({ "n": 6 })),
        (rates, fine()),
    ] {
        let (bench, script) = start([policy("governs", members)]).await;
        send(&bench, "a", fine()).await.unwrap();
        let got = send(&bench, "a", data).await;
        assert!(matches!(got, Err(Error::Policy(_))), "{got:?}");
        assert_eq!(script.asked().len(), 1);
    }
}

#[tokio::test]
async fn unknown_placeholders_in_messages_are_rejected() {
    let tokenizes = json!({ "inspection": { "results": { "contact": "tokenize" } } });
    let (bench, script) = start([policy("inspect", tokenizes)]).await;
    let unknown = "[[contact:000000]]";
    for data in [json!({ "n": 1, "say": unknown }), json!({ "n": 1, unknown: 1 })] {
        let got = send(&bench, "a", data).await;
        assert!(matches!(got, Err(Error::UnknownPlaceholder { .. })), "{got:?}");
    }
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn push_notifications_are_not_supported() {
    let (bench, script) = start([]).await;
    let mut params = message(&json!({ "n": 1 }));
    let config = json!({ "url": "http://169.254.169.254/" });
    params["configuration"] = json!({ "taskPushNotificationConfig": config });
    let got = operate(&bench, "a", Operation::SendMessage, params).await.1;
    assert_eq!(kind(&got), ErrorKind::PushNotificationNotSupported);
    assert!(script.asked().is_empty());
}
