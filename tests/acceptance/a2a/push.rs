//! Push notifications of agents made with the SDKs, through the gateway to the URL of a caller.

use acceptance::{GatewayOptions, Process, eventually};
use gateway_testkit::{Server, json_reply};
use serde_json::{Value, json};

use super::{Agent, Scene, message, sdks::pushing_agents, skill};

const COMPLETED: &str = "TASK_STATE_COMPLETED";

/// Whether a notification in the form of 1.0 reports the end of a task.
fn is_end(notification: &Value, task: &str) -> bool {
    let has = |id: &str, at: &str| {
        notification.pointer(id) == Some(&json!(task))
            && notification.pointer(at) == Some(&json!(COMPLETED))
    };
    has("/task/id", "/task/status/state")
        || has("/statusUpdate/taskId", "/statusUpdate/status/state")
}

/// Waits for the notification of the end of a task.
async fn ended(receiver: &Server, task: &str) {
    eventually("the end of the task is pushed", || async {
        receiver.all_seen().iter().any(|seen| is_end(&seen.body, task))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_sdks_push_through_the_gateway() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut agents, mut processes) = (Vec::new(), Vec::new());
    for (sdk, command, paths) in pushing_agents() {
        let process = Process::run(sdk, dir.path(), command).unwrap_or_else(|e| panic!("{e}"));
        for path in paths {
            let url = format!("http://{}/{path}/", process.address());
            let skills = ["report", "ask"].map(skill).into();
            agents.push(Agent::new(&format!("{sdk}/{}", path.replace('/', "-")), &url, skills));
        }
        processes.push(process);
    }
    let mut scene = Scene::start(&agents, "").await;
    // The agents need the address of the gateway, which is known after its first start.
    let push = "pushNotifications: { addresses: any, allowHttp: true }";
    let more = format!("a2a: {{ url: \"{}\", {push} }}\n", scene.gateway.url());
    let GatewayOptions { source, targets, runtime, .. } = &scene.options;
    let (source, targets, runtime) = (source.clone(), targets.clone(), runtime.clone());
    scene.gateway.process.kill_9();
    scene.gateway.restart(&GatewayOptions { source, targets, runtime, more });
    scene.gateway.ready().await;
    scene.gateway.upstreams_up(agents.len()).await;
    let receiver = Server::start(|_| json_reply(200, &json!({}))).await;
    let config = json!({ "url": receiver.url(), "token": "of-the-client" });
    for agent in &agents {
        let caller = scene.caller("caller", &agent.name);
        let mut sent = message("report", "");
        sent["message"]["parts"] = json!([{ "data": { "topic": "tea" } }]);
        sent["configuration"] = json!({ "taskPushNotificationConfig": config });
        let answer = caller.call("SendMessage", &sent).await;
        ended(&receiver, answer.task()["id"].as_str().expect("an id")).await;

        let asked = caller.send("ask", "a poster").await.task().clone();
        let mut later = config.clone();
        later["taskId"] = asked["id"].clone();
        caller.call("CreateTaskPushNotificationConfig", &later).await.result();
        let mut sent = message("ask", "red");
        sent["message"]["taskId"] = asked["id"].clone();
        sent["message"]["contextId"] = asked["contextId"].clone();
        caller.call("SendMessage", &sent).await.task();
        ended(&receiver, asked["id"].as_str().expect("an id")).await;
    }
    for delivered in receiver.all_seen() {
        assert_eq!(delivered.header("x-a2a-notification-token"), Some("of-the-client"));
    }
}
