//! Tasks belong to the caller that created them.

use std::sync::Arc;

use acceptance::{ModernClient, eventually, mcp::Answer};
use serde_json::{Value, json};

use super::{DECLARING, OTHER, Scene, TASKS, modern};

async fn scene(more: &str) -> Scene {
    let capabilities = json!({ "tools": {}, "extensions": { TASKS: {} } });
    let method = |name: &str, params: &Value| match name {
        "tools/call" => Some(json!({ "resultType": "task", "taskId": "t-1", "status": "working" })),
        "tasks/get" => Some(json!({ "taskId": params["taskId"], "status": "completed",
            "result": { "content": [] } })),
        "tasks/cancel" => Some(json!({})),
        _ => None,
    };
    Scene::start(modern(capabilities, Arc::new(method)), more).await
}

fn knowing() -> Value {
    json!({ "extensions": { TASKS: {} } })
}

async fn begin(client: &ModernClient) -> String {
    let begun = client.call("fetch", json!({ "url": "http://x/" })).await;
    assert_eq!(begun.result()["resultType"], "task", "{begun:?}");
    begun.result()["taskId"].as_str().expect("an id").to_owned()
}

async fn ask(client: &ModernClient, method: &str, id: &str) -> Answer {
    client.request(method, json!({ "taskId": id })).await.expect("an answer")
}

#[tokio::test]
async fn task_is_visible_only_to_its_creator() {
    let scene = scene("").await;
    let (owner, other, anonymous) =
        [DECLARING, OTHER, ""].map(|agent| scene.client(agent, knowing())).into();
    let id = begin(&owner).await;
    let got = ask(&owner, "tasks/get", &id).await;
    assert_eq!(got.result()["taskId"], json!(id), "a task keeps its id: {got:?}");
    assert_eq!(got.result()["status"], "completed");
    // For a caller without access to a server with tasks, the method does not exist.
    for (stranger, told) in [(&other, (404, -32601)), (&anonymous, (200, -32602))] {
        // Its own tasks work.
        let own = begin(stranger).await;
        assert_eq!(ask(stranger, "tasks/get", &own).await.result()["taskId"], json!(own));
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let before = scene.server.seen();
            // A truncated id is unknown.
            let never = &id[..id.len() - 1];
            let answers = [ask(stranger, method, &id).await, ask(stranger, method, never).await];
            let [foreign, unknown] = answers.map(|answer| {
                assert_eq!((answer.status, answer.error_code()), told, "{answer:?}");
                answer.message["error"].to_string()
            });
            assert_eq!(foreign.replace(&id, "ID"), unknown.replace(never, "ID"), "{method}");
            assert_eq!(scene.server.seen(), before, "the server received no request");
        }
    }
    assert_eq!(ask(&anonymous, "tasks/get", "fetch-server+t-1").await.error_code(), -32602);
    assert!(ask(&owner, "tasks/cancel", &id).await.result().is_object());
    let events = scene.audited("tasks/cancel");
    let last = events.last().expect("an event");
    assert!(last.contains("tool=\"fetch\"") && last.contains("server=fetch-server"), "{last}");
    let log = scene.gateway.process.stderr();
    assert!(!log.contains(&id[..60]), "an id is in the log: {log}");
}

#[tokio::test]
async fn task_creator_may_poll_undeclared_tool() {
    let scene = scene("").await;
    let undeclared = scene.client(OTHER, knowing());
    let id = begin(&undeclared).await;
    for method in ["tasks/get", "tasks/cancel"] {
        assert!(ask(&undeclared, method, &id).await.result().is_object(), "{method}");
        let events = scene.audited(method);
        let noted = "permit=warn:undeclared-dependency";
        assert!(events.iter().all(|event| event.replace('"', "").contains(noted)), "{events:?}");
    }
}

#[tokio::test]
async fn task_survives_configuration_reload() {
    let scene = scene("admin: 127.0.0.1:0\n").await;
    let owner = scene.client(DECLARING, knowing());
    let id = begin(&owner).await;
    let url = format!("{}/admin/reload", scene.gateway.admin_url());
    let reloaded = reqwest::Client::new().post(url).send().await.expect("an answer");
    assert_eq!(reloaded.status(), 200);
    eventually("it is served again", || async {
        ask(&owner, "tasks/get", &id).await.message["result"]["status"] == "completed"
    })
    .await;
}

#[tokio::test]
async fn task_survives_gateway_kill() {
    let mut scene = scene("").await;
    let id = begin(&scene.client(DECLARING, knowing())).await;
    scene.gateway.process.kill_9();
    scene.gateway.restart(&scene.options);
    scene.gateway.ready().await;
    let (owner, other) = (scene.client(DECLARING, knowing()), scene.client(OTHER, knowing()));
    eventually("its server is known again", || async {
        ask(&owner, "tasks/get", &id).await.message["result"]["status"] == "completed"
    })
    .await;
    assert!(ask(&other, "tasks/get", &id).await.message["error"].is_object());
}
