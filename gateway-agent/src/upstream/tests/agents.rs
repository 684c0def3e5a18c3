//! Agents that change, fail and forget: what becomes of a message to them, which is sent once.
//!
//! Deliberately absent: the official SDK as the agent; the acceptance tests have it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{fake::*, *};
use crate::jsonrpc::code::METHOD_NOT_FOUND;

fn agent() -> Key {
    "agent/team/under-test@1.0.0".parse().unwrap()
}

/// An agent that answers so what is neither a look whether it is there nor, of a version that it does
/// not speak, refused.
async fn fake(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Fake, Arc<Upstreams>) {
    let fake = Fake::start(move |seen| {
        let is_look = seen.rpc_method() == "GetTask" && seen.body["params"]["id"] == "none";
        if is_look {
            seen.error(200, &json!({ "code": -32001, "message": "?" }))
        } else {
            answer(seen)
        }
    });
    started(fake.await).await
}

/// The gateway's side, which has just begun.
fn start_with(fake: &Fake) -> Arc<Upstreams> {
    let (server, prefix) = (agent(), Prefix::parse("").unwrap());
    let target = TargetConfig { server, prefix, transport: fake.transport() };
    Upstreams::start_with(&[target], limits(), TIMING)
}

async fn started(fake: Fake) -> (Fake, Arc<Upstreams>) {
    let upstreams = start_with(&fake);
    upstreams.until_up().await;
    (fake, upstreams)
}

async fn ask(upstreams: &Upstreams) -> Result<Value, Error> {
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let context = Context::default();
    let request = Request {
        arguments: Some(&arguments),
        is_repeatable: false,
        ..Request::plain(Method::SendMessage { as_text: false }, &[], &context)
    };
    let result = upstreams.run(&agent(), "skill", request).await?;
    Ok(serde_json::from_str(result.result.get()).unwrap())
}

fn task(seen: &Seen, state: &str) -> Reply {
    let task = json!({ "id": "t", "status": { "state": state }, "artifacts":
        [{ "parts": [{ "data": { "made": true } }] }] });
    let is_told = seen.rpc_method() == "GetTask";
    seen.result(&if is_told { task } else { json!({ "task": task }) })
}

#[tokio::test]
async fn what_an_agent_speaks_is_found_out_and_again_when_it_changes() {
    let is_new = Arc::new(AtomicBool::new(false));
    let knows = Arc::clone(&is_new);
    let fake = Fake::start(move |seen| {
        let is_v1 = !seen.rpc_method().contains('/');
        assert_eq!(seen.header("a2a-version"), Some(if is_v1 { "1.0" } else { "0.3" }));
        assert_eq!(seen.header("authorization"), Some("Bearer ours"));
        match seen.rpc_method() {
            _ if is_v1 != knows.load(Ordering::Relaxed) => {
                seen.error(200, &json!({ "code": METHOD_NOT_FOUND, "message": "?" }))
            }
            "SendMessage" => seen.result(&json!({ "message": { "parts": [{ "data": 1 }] } })),
            "message/send" => {
                seen.result(&json!({ "kind": "message", "parts": [{ "kind": "data", "data": 3 }] }))
            }
            _ => seen.error(200, &json!({ "code": -32001, "message": "?" })),
        }
    });
    let (fake, upstreams) = started(fake.await).await;
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "a2a-0.3" }));
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 3);
    is_new.store(true, Ordering::Relaxed);
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 1);
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 1);
    assert_eq!((fake.seen("message/send").len(), fake.seen("SendMessage").len()), (2, 2));
    assert!(upstreams.listed().is_empty());
    upstreams.shutdown().await;
}

#[tokio::test]
async fn one_that_speaks_neither_version_is_down() {
    for code in [METHOD_NOT_FOUND, -32009] {
        let refuse = move |seen: &Seen| seen.error(200, &json!({ "code": code, "message": "?" }));
        let fake = Fake::start(refuse).await;
        let upstreams = start_with(&fake);
        eventually(|| async { matches!(upstreams.state(), TargetState::Down { .. }) }).await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(matches!(error, Error::Protocol { what: Breach::NoCommonVersion }), "{error}");
        assert!(fake.seen("SendMessage").is_empty());
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn a_task_is_waited_for_whether_its_agent_can_be_asked_or_not() {
    let asked = AtomicUsize::new(0);
    let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
        "SendMessage" => task(seen, "TASK_STATE_SUBMITTED"),
        "GetTask" => match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::Close(Vec::new()),
            1 => raw_reply(503, "text/plain", b"starting"),
            2 => task(seen, "TASK_STATE_WORKING"),
            3 => seen.result(&json!({ "id": "other", "status": { "state": "submitted" } })),
            _ => task(seen, "TASK_STATE_COMPLETED"),
        },
        method => panic!("{method}"),
    })
    .await;
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], json!({ "made": true }));
    assert_eq!(fake.seen("SendMessage").len(), 1);
    let asked: Vec<_> = fake.seen("GetTask");
    let ids: Vec<_> = asked.iter().map(|seen| &seen.body["params"]["id"]).collect();
    assert_eq!(ids[ids.len() - 5..], ["t"; 5]);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn nobody_knows_what_became_of_a_task_that_its_agent_does_not_tell_of() {
    type Answer = fn(&Seen) -> Reply;
    let answers: [(Answer, &str); 3] = [
        (|seen| seen.error(200, &json!({ "code": -32001, "message": "gone" })), "gone"),
        (|_| raw_reply(401, "text/plain", b""), "HTTP 401"),
        (|seen| seen.result(&json!({ "id": "t" })), "GetTask"),
    ];
    for (answer, why) in answers {
        let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
            "SendMessage" => task(seen, "TASK_STATE_WORKING"),
            "GetTask" => answer(seen),
            _ => seen.result(&json!({})),
        })
        .await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        eventually(|| async { fake.seen("CancelTask").len() == 1 }).await;
        assert_eq!(fake.seen("SendMessage").len(), 1);
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn a_task_for_which_nobody_waits_is_canceled_and_one_that_has_ended_is_not() {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
        "SendMessage" if over.load(Ordering::Relaxed) => task(seen, "TASK_STATE_COMPLETED"),
        "SendMessage" | "GetTask" => task(seen, "TASK_STATE_WORKING"),
        _ => seen.result(&json!({})),
    })
    .await;
    assert!(timeout(Duration::from_millis(200), ask(&upstreams)).await.is_err());
    eventually(|| async { fake.seen("CancelTask").len() == 1 }).await;
    assert_eq!(fake.seen("CancelTask")[0].body["params"], json!({ "id": "t" }));
    is_over.store(true, Ordering::Relaxed);
    ask(&upstreams).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.seen("CancelTask").len(), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn a_message_is_sent_once_whatever_comes_back() {
    type Answer = fn(&Seen) -> Reply;
    let answers: [(Answer, &str); 5] = [
        (|_| Reply::Close(Vec::new()), "went away"),
        (|_| raw_reply(200, "text/html", b"<p>"), "neither JSON nor"),
        (|_| raw_reply(500, "text/plain", b"oops"), "HTTP status 500"),
        (|seen| seen.result(&json!({ "task": {} })), "wrong shape"),
        (|seen| seen.result(&json!({ "message": "x".repeat(70_000) })), "longer than 65536"),
    ];
    for (answer, why) in answers {
        let (fake, upstreams) = fake(answer).await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(fake.seen("SendMessage").len(), 1);
        upstreams.shutdown().await;
    }
    let (fake, upstreams) =
        fake(|seen| seen.error(200, &json!({ "code": -32005, "message": "no such type" }))).await;
    let error = ask(&upstreams).await.unwrap_err();
    assert!(matches!(&error, Error::Rpc { message, .. } if message == "no such type"), "{error}");
    assert_eq!(fake.seen("SendMessage").len(), 1);
    upstreams.shutdown().await;
}
