//! Tasks belong to whoever began them.

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
async fn a_task_is_its_beginners_and_for_all_others_it_is_not_there() {
    let scene = scene("").await;
    let (owner, other, nobody) =
        [DECLARING, OTHER, ""].map(|agent| scene.client(agent, knowing())).into();
    let id = begin(&owner).await;
    let got = ask(&owner, "tasks/get", &id).await;
    assert_eq!(got.result()["taskId"], json!(id), "a task keeps its id: {got:?}");
    assert_eq!(got.result()["status"], "completed");
    // Who is shown no server with tasks is told that there is no such method.
    for (stranger, told) in [(&other, (404, -32601)), (&nobody, (200, -32602))] {
        // Its own begin and end are as they should be.
        let own = begin(stranger).await;
        assert_eq!(ask(stranger, "tasks/get", &own).await.result()["taskId"], json!(own));
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let before = scene.liar.seen();
            // Cut by a letter, it is an id that never was.
            let never = &id[..id.len() - 1];
            let answers = [ask(stranger, method, &id).await, ask(stranger, method, never).await];
            let [foreign, unknown] = answers.map(|answer| {
                assert_eq!((answer.status, answer.error_code()), told, "{answer:?}");
                answer.message["error"].to_string()
            });
            assert_eq!(foreign.replace(&id, "ID"), unknown.replace(never, "ID"), "{method}");
            assert_eq!(scene.liar.seen(), before, "the server was not asked");
        }
    }
    assert_eq!(ask(&nobody, "tasks/get", "fetch-server+t-1").await.error_code(), -32602);
    assert!(ask(&owner, "tasks/cancel", &id).await.result().is_object());
    let events = scene.audited("tasks/cancel");
    let last = events.last().expect("an event");
    assert!(last.contains("tool=\"fetch\"") && last.contains("server=fetch-server"), "{last}");
    let log = scene.gateway.process.stderr();
    assert!(!log.contains(&id[..60]), "an id is in the log: {log}");
}

#[tokio::test]
async fn who_may_begin_a_task_may_also_ask_for_it_also_where_the_tool_was_not_declared() {
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
async fn a_task_outlives_a_change_of_the_configuration() {
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
async fn a_task_outlives_a_gateway_that_is_killed() {
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
