//! Tasks through the gateway: they belong to their caller, survive a restart of the gateway, and
//! continue without a client.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use acceptance::{ModernClient, eventually};
use futures_util::{
    future::{join_all, select_all},
    stream,
};
use gateway_testkit::{Received, Reply, Server, empty};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Agent, Caller, Events, Scene, message, skill};

const WORKING: &str = "TASK_STATE_WORKING";
const COMPLETED: &str = "TASK_STATE_COMPLETED";
const CANCELED: &str = "TASK_STATE_CANCELED";
/// The text of a message whose answer waits for the end of its task.
const BLOCK: &str = "block";
/// The error code of an unknown task.
const TASK_NOT_FOUND: i64 = -32001;

/// An agent whose tasks work until all are released.
struct Office {
    server: Server,
    released: watch::Sender<bool>,
}

/// The part of the agent that its replies share.
struct Desk {
    tasks: AtomicUsize,
    released: watch::Receiver<bool>,
}

impl Office {
    async fn start() -> Self {
        let (released, receiver) = watch::channel(false);
        let desk = Arc::new(Desk { tasks: AtomicUsize::new(0), released: receiver });
        let server = Server::serve(move |received| Arc::clone(&desk).reply(received)).await;
        Self { server, released }
    }

    fn agent(&self) -> Agent {
        Agent::new("office", &format!("http://{}/", self.server.address()), vec![skill("work")])
    }

    /// Completes all tasks.
    fn release(&self) {
        self.released.send_replace(true);
    }

    fn requests(&self, method: &str) -> usize {
        self.server.seen(method).len()
    }

    /// The number of requests for a task.
    fn polls(&self, task: &str) -> usize {
        let polls = self.server.seen("GetTask");
        polls.iter().filter(|poll| poll.body["params"]["id"] == task).count()
    }
}

impl Desk {
    /// A task of an agent with a slow clock.
    fn task(&self, id: &str) -> Value {
        let state = if *self.released.borrow() { COMPLETED } else { WORKING };
        json!({ "id": id, "contextId": "context-1",
            "status": { "state": state, "timestamp": "2026-01-01T00:00:00.000Z" } })
    }

    async fn end(&self) {
        // The sender is dropped with its test.
        let _ = self.released.clone().wait_for(|released| *released).await;
    }

    async fn reply(self: Arc<Self>, received: Arc<Received>) -> Reply {
        let params = &received.body["params"];
        let known = params["id"].as_str().filter(|id| id.starts_with("task-")).map(str::to_owned);
        let sent = &params["message"];
        match (received.rpc_method(), known) {
            ("SendMessage", _)
                if sent["taskId"].is_string() && sent["contextId"] != "context-1" =>
            {
                let message = "the task has another context";
                received.error(200, &json!({ "code": -32602, "message": message }))
            }
            ("SendMessage", _) => {
                let id = self.next_id();
                let is_immediate = params["configuration"]["returnImmediately"] == true;
                if !is_immediate || params["message"]["parts"][0]["text"] == BLOCK {
                    self.end().await;
                }
                received.result(&json!({ "task": self.task(&id) }))
            }
            ("SendStreamingMessage", _) => self.events(&received, &self.next_id()),
            ("SubscribeToTask", Some(id)) => self.events(&received, &id),
            ("GetTask", Some(id)) => received.result(&self.task(&id)),
            ("CancelTask", Some(id)) => {
                let mut task = self.task(&id);
                task["status"]["state"] = CANCELED.into();
                received.result(&task)
            }
            ("", _) => empty(404),
            _ => received.error(200, &json!({ "code": TASK_NOT_FOUND, "message": "not found" })),
        }
    }

    fn next_id(&self) -> String {
        format!("task-{}", self.tasks.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The task, and its end when it is released.
    fn events(self: &Arc<Self>, received: &Received, id: &str) -> Reply {
        let (desk, id, request) = (Arc::clone(self), id.to_owned(), received.body["id"].clone());
        let is_late = received.body["params"]["message"]["parts"][0]["text"] == BLOCK;
        let events = stream::unfold(0, move |number| {
            let (desk, id, request) = (Arc::clone(&desk), id.clone(), request.clone());
            async move {
                let result = match number {
                    0 => {
                        if is_late {
                            desk.end().await;
                        }
                        json!({ "task": desk.task(&id) })
                    }
                    1 => {
                        desk.end().await;
                        let status = desk.task(&id)["status"].take();
                        json!({ "statusUpdate": { "taskId": id, "contextId": "context-1",
                            "status": status } })
                    }
                    _ => return None,
                };
                let event = json!({ "jsonrpc": "2.0", "id": request, "result": result });
                Some((event, number + 1))
            }
        });
        Reply::events(events)
    }
}

async fn start(more: &str) -> (Office, Scene, Caller) {
    let office = Office::start().await;
    let scene = Scene::start(&[office.agent()], more).await;
    let caller = scene.caller("caller", "office");
    (office, scene, caller)
}

#[tokio::test(flavor = "multi_thread")]
async fn task_survives_a_killed_gateway() {
    let (office, mut scene, caller) = start("").await;
    let task = caller.begin("work", "plan").await;
    assert_eq!(caller.get(&task).await.state(), WORKING);
    let mut followed = caller.subscribe(&task).await;
    assert!(followed.next().await.is_some());
    scene.gateway.process.kill_9();
    scene.gateway.restart(&scene.options);
    scene.gateway.ready().await;
    scene.gateway.upstreams_up(1).await;
    let after = caller.get(&task).await;
    assert_eq!((after.state(), &after.result()["id"]), (WORKING, &json!(task)));
    let mut events = caller.subscribe(&task).await;
    let first = events.next().await.expect("the task");
    assert_eq!(first["result"]["task"]["id"], *task, "{first}");
    office.release();
    let last = events.rest().await.pop().expect("the end");
    assert_eq!(last["result"]["statusUpdate"]["status"]["state"], COMPLETED, "{last}");
    assert_eq!(last["result"]["statusUpdate"]["taskId"], *task, "{last}");
    assert_eq!(caller.get(&task).await.state(), COMPLETED);
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_client_cancels_no_task() {
    let (office, _scene, caller) = start("").await;
    let mut events = caller.stream("work", "plan").await;
    let first = events.next().await.expect("the task");
    let task = first["result"]["task"]["id"].as_str().expect("an id").to_owned();
    drop(events);
    let blocked = caller.clone();
    let blocking = tokio::spawn(async move { blocked.send("work", "report").await });
    eventually("the agent works", || async { office.requests("SendMessage") == 1 }).await;
    blocking.abort();
    assert!(blocking.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(caller.get(&task).await.state(), WORKING);
    office.release();
    eventually("the task ends", || async { caller.get(&task).await.state() == COMPLETED }).await;
    assert_eq!(office.requests("CancelTask"), 0);
    eventually("only the stream is closed", || async { office.server.cut_off() == 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_message_returns_the_end_of_its_task() {
    let (office, _scene, caller) = start("").await;
    let waiting = caller.clone();
    let waiting = tokio::spawn(async move { waiting.send("work", "plan").await });
    eventually("the gateway polls", || async { office.polls("task-1") > 1 }).await;
    office.release();
    let answer = waiting.await.expect("an answer");
    assert_eq!(answer.task()["status"]["state"], COMPLETED, "{answer:?}");
    assert_eq!(office.requests("SendMessage"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_message_returns_unfinished_task_at_time_limit() {
    let (office, _scene, caller) = start("limits: { callTimeoutMs: 500 }\n").await;
    let answer = caller.send("work", "plan").await;
    assert_eq!(answer.task()["status"]["state"], WORKING, "{answer:?}");
    let task = answer.task()["id"].as_str().expect("an id").to_owned();
    office.release();
    assert_eq!(caller.get(&task).await.state(), COMPLETED);
    assert_eq!(office.requests("CancelTask"), 0);
}

/// The agent ignores `returnImmediately`.
#[tokio::test(flavor = "multi_thread")]
async fn task_of_late_answer_is_listed() {
    let (office, _scene, caller) = start("limits: { callTimeoutMs: 500 }\n").await;
    let answer = caller.send("work", BLOCK).await;
    assert_eq!((answer.status, answer.code()), (504, &json!(-32000)), "{answer:?}");
    let details = &answer.message["error"]["data"];
    assert_eq!(details[0]["reason"], "AGENT_TIMEOUT", "{answer:?}");
    let listed = async || caller.call("ListTasks", &json!({})).await.result()["tasks"].clone();
    assert_eq!(listed().await, json!([]));
    office.release();
    eventually("the task is listed", || async { listed().await[0]["id"].is_string() }).await;
    let listed = listed().await;
    let task = listed[0]["id"].as_str().expect("an id");
    assert_eq!(caller.get(task).await.state(), COMPLETED);
    assert_eq!(office.requests("SendMessage"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_of_late_stream_is_listed() {
    let (office, _scene, caller) = start("limits: { callTimeoutMs: 500 }\n").await;
    let mut events = caller.stream("work", BLOCK).await;
    let error = events.next().await.expect("an error");
    let reason = &error["error"]["data"][0]["reason"];
    assert_eq!((events.status, reason), (504, &json!("AGENT_TIMEOUT")), "{error}");
    office.release();
    eventually("the task is listed", || async {
        let list = caller.call("ListTasks", &json!({})).await;
        list.result()["tasks"][0]["id"].is_string()
    })
    .await;
    let counts = ["SendStreamingMessage", "CancelTask"].map(|method| office.requests(method));
    assert_eq!(counts, [1, 0]);
}

/// A skill that is called as a tool takes the path of a step.
#[tokio::test(flavor = "multi_thread")]
async fn step_streams_from_an_agent_with_streams() {
    let (office, scene, _caller) = start("agents: { asTools: true }\n").await;
    let client = ModernClient::agent(&scene.gateway.mcp_url(), "caller", "1.0.0");
    let arguments = json!({ "topic": "plan" });
    let call = tokio::spawn(async move { client.call("agent__office__work", arguments).await });
    eventually("the agent streams", || async { office.requests("SendStreamingMessage") == 1 })
        .await;
    office.release();
    let answer = call.await.expect("an answer");
    assert!(!answer.is_tool_error(), "{answer:?}");
    assert_eq!((office.requests("SendMessage"), office.polls("task-1")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_subscriber_gets_the_end_of_a_task() {
    let (office, _scene, caller) = start("").await;
    let task = caller.begin("work", "plan").await;
    let mut subscribers = Vec::new();
    for _ in 0..5 {
        let mut events = caller.subscribe(&task).await;
        assert!(events.next().await.is_some());
        subscribers.push(events);
    }
    drop(subscribers.pop());
    office.release();
    for events in subscribers {
        let last = events.rest().await.pop().expect("the end");
        assert_eq!(last["result"]["statusUpdate"]["status"]["state"], COMPLETED, "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn task_exists_only_for_its_caller() {
    let (office, scene, caller) = start("").await;
    let task = caller.begin("work", "plan").await;
    let foreign = scene.caller("other", "office");
    let altered: String = task.chars().rev().collect();
    // The agent's own id is no id of the gateway.
    for (caller, id) in [(&foreign, &*task), (&caller, "task-1"), (&caller, &*altered)] {
        let mut follow_up = message("work", "more");
        follow_up["message"]["taskId"] = id.into();
        let by_id = json!({ "id": id });
        for (method, params) in [
            ("GetTask", &by_id),
            ("CancelTask", &by_id),
            ("SubscribeToTask", &by_id),
            ("SendMessage", &follow_up),
        ] {
            let answer = caller.call(method, params).await;
            assert_eq!(answer.code(), TASK_NOT_FOUND, "{method} of {id}: {answer:?}");
        }
    }
    // The agent receives none of them.
    let received = ["CancelTask", "SubscribeToTask", "SendMessage"];
    assert_eq!(received.map(|method| office.requests(method)), [0, 0, 1]);

    let list = async |caller: &Caller| {
        let answer = caller.call("ListTasks", &json!({})).await;
        let tasks = answer.result()["tasks"].as_array().expect("a list");
        tasks.iter().map(|task| task["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list(&caller).await, [json!(task)]);
    assert!(list(&foreign).await.is_empty());
    assert_eq!(caller.call("CancelTask", &json!({ "id": task })).await.state(), CANCELED);
}

#[tokio::test(flavor = "multi_thread")]
async fn mismatching_context_is_rejected() {
    let (_office, _scene, caller) = start("").await;
    let first = caller.begin("work", "plan").await;
    let answer = caller.get(&first).await;
    let context = answer.result()["contextId"].as_str().expect("an id").to_owned();
    let mut follow_up = message("work", "more");
    follow_up["message"]["taskId"] = first.into();
    follow_up["message"]["contextId"] = format!("{context}x").into();
    let refused = caller.call("SendMessage", &follow_up).await;
    assert_eq!(refused.code(), -32602, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_agent_does_not_exist() {
    let (office, scene, _caller) = start("").await;
    let stranger = scene.caller("stranger", "office");
    let absent = scene.caller("stranger", "absent");
    let refused = [&stranger, &absent].map(|caller| caller.send("work", "plan"));
    let [one, other] = join_all(refused).await.try_into().expect("two");
    assert!(one.message["error"].is_object(), "{one:?}");
    assert_eq!(one.status, other.status);
    assert_eq!(one.code(), other.code());
    assert_eq!(office.requests("SendMessage"), 0);
}

/// One caller has half of the running and half of the waiting requests.
#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_caller_leave_room_for_others() {
    let limits = "limits: { upstreamRequests: 8, upstreamWaiting: 2 }\n";
    let (office, scene, caller) = start(limits).await;
    let other = scene.caller("other", "office");
    let (mut open, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut events = caller.stream("work", "plan").await;
        let first = events.next().await.expect("an answer");
        assert!(first["result"]["task"].is_object(), "{first}");
        tasks.push(first["result"]["task"]["id"].as_str().expect("an id").to_owned());
        open.push(events);
    }
    let two = [caller.stream("work", "plan"), caller.stream("work", "plan")].map(Box::pin);
    let (mut rejected, _, waiting) = select_all(two).await;
    let first = rejected.next().await.expect("an answer");
    assert_eq!((rejected.status, &first["error"]["code"]), (503, &json!(-32000)), "{first}");
    assert_eq!(office.requests("SendStreamingMessage"), 4, "the other one waits");
    assert_eq!(caller.get(&tasks[0]).await.state(), WORKING, "tasks have a reserve");
    let mut events = other.stream("work", "plan").await;
    let first = events.next().await.expect("an answer");
    assert!(first["result"]["task"].is_object(), "{first}");
    office.release();
    open.extend(join_all(waiting).await);
    for events in open {
        let last = events.rest().await.pop().expect("the end");
        assert!(last["result"].is_object(), "{last}");
    }
}

/// A quarter of `limits.sessions`.
#[tokio::test(flavor = "multi_thread")]
async fn streams_beyond_the_quota_of_a_caller_are_rejected() {
    const QUOTA: usize = 10;
    const WANTED: usize = 100;
    let (office, scene, caller) = start("limits: { sessions: 40 }\n").await;
    let streams = (0..WANTED).map(|_| async {
        let mut events = caller.stream("work", "plan").await;
        let first = events.next().await.expect("an answer");
        (events, first)
    });
    let answers = join_all(streams).await;
    let (mut open, rejected): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|(_, first)| first["result"]["task"].is_object());
    assert_eq!((open.len(), rejected.len()), (QUOTA, WANTED - QUOTA));
    for (events, first) in rejected {
        assert_eq!((events.status, &first["error"]["code"]), (429, &json!(-32000)), "{first}");
    }
    assert_eq!(office.requests("SendStreamingMessage"), QUOTA, "no other message was sent");
    // The gateway distinguishes callers without credentials by their addresses.
    let http = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, 2])).build();
    let http = http.expect("a client");
    let other = Caller { http, ..scene.caller("other", "office") };
    let mut events = other.stream("work", "plan").await;
    let first = events.next().await.expect("an answer");
    assert!(first["result"]["task"].is_object(), "{first}");
    drop(open.pop());
    eventually("a closed stream frees its place", || async {
        let mut events = caller.stream("work", "plan").await;
        events.next().await.is_some_and(|first| first["result"]["task"].is_object())
    })
    .await;
    office.release();
}

/// Over a few connections of HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_streams_leave_memory_and_other_callers() {
    const QUOTA: usize = 10;
    const BATCHES: usize = 50;
    const BATCH: usize = 200;
    // No stream ends, however long the requests take.
    let limits = "limits: { sessions: 40, callTimeoutMs: 600000 }\n";
    let (office, scene, caller) = start(limits).await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let caller = Caller { http, ..caller };
    let elsewhere = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, 2])).build();
    let other = Caller { http: elsewhere.expect("a client"), ..scene.caller("other", "office") };
    let before = scene.gateway.process.resident_bytes();
    let (mut open, mut refused) = (Vec::new(), 0);
    for batch in 0..BATCHES {
        let params = message("work", "plan");
        let streams = (0..BATCH).map(|_| caller.open("SendStreamingMessage", &params));
        for response in join_all(streams).await {
            let has_retry = response.headers().contains_key("retry-after");
            let mut events = Events::of(response);
            if events.status == 200 {
                open.push(events);
                continue;
            }
            let error = events.next().await.expect("an error");
            let reason = &error["error"]["data"][0]["reason"];
            assert_eq!((events.status, reason), (429, &json!("TOO_MANY_STREAMS")), "{error}");
            assert!(has_retry);
            refused += 1;
        }
        if batch % 10 == 0 {
            let first = other.stream("work", "plan").await.next().await.expect("an answer");
            assert!(first["result"]["task"].is_object(), "{first}");
        }
    }
    assert_eq!((open.len(), refused), (QUOTA, BATCHES * BATCH - QUOTA));
    let grown = scene.gateway.process.peak_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    office.release();
}
