//! FR-009: start, stop and health of servers, retries, and shutdown.

use std::time::Instant;

use acceptance::eventually_within;

use super::*;

#[tokio::test]
async fn fr_009_stopped_server_leaves_lists_and_starts_again() {
    let scene = Scene::ready(&[quick("one", &["a"]), quick("two", &["b"])], &[]).await;
    let healthy = scene.gateway_command(&["health", "one@*", "--output", "json"]);
    assert!(healthy.success(), "{healthy:?}");
    let shown = healthy.json();
    assert_eq!((&shown["lifecycle"], &shown["healthy"]), (&json!("running"), &json!(true)));

    assert!(scene.gateway_command(&["stop", "--yes", "one@*"]).success());
    eventually("its tools leave the list", || async { !scene.standalone.has("a").await }).await;
    assert!(scene.standalone.has("b").await);
    assert_eq!(scene.target("one").await["lifecycle"], "stopped");
    let stopped = scene.execute("a", json!({})).await;
    assert_eq!(stopped["code"], "AGENT_UNAVAILABLE", "{stopped}");
    let unhealthy = scene.gateway_command(&["health", "one@*", "--output", "json"]);
    assert_eq!((unhealthy.code, &unhealthy.json()["code"]), (1, &json!("AGENT_UNAVAILABLE")));
    let id = scene.file("one", "pid").trim().to_owned();
    eventually("its process has ended", || async { !Path::new("/proc").join(&id).exists() }).await;

    assert!(scene.gateway_command(&["start", "--yes", "one@*"]).success());
    eventually("its tools are listed", || scene.standalone.has("a")).await;
    assert_eq!(scene.execute("a", json!({})).await, done());
    let unknown = scene.gateway_command(&["health", "three@*"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
}

#[tokio::test]
async fn fr_009_failed_start_is_reported_and_others_run() {
    let failing = Server { name: "bad", tools: &[], call: DONE };
    let servers = [failing, quick("one", &["a"])];
    let scene = Scene::start(&Start { servers: &servers, down: &["bad"], ..Start::default() });
    eventually("the other server runs", || scene.standalone.has("a")).await;
    eventually("the failure is reported", || async {
        scene.target("bad").await["code"] == "AGENT_INIT_FAILED"
    })
    .await;
    assert_eq!(scene.target("bad").await["lifecycle"], "initialized");
    assert_eq!(scene.execute("a", json!({})).await, done());
}

#[tokio::test]
async fn health_prints_state_after_its_probe() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    scene.forbid("one");
    eventually("health fails", || async {
        let health = scene.gateway_command(&["health", "one@*", "--output", "json"]);
        let shown = health.json();
        let (state, code) = (shown["state"].as_str(), health.code);
        assert!(matches!((state, code), (Some("up"), 0) | (Some("down"), 1)), "{health:?}");
        code == 1
    })
    .await;
    assert_eq!(scene.target("one").await["state"], "down");
}

#[tokio::test]
async fn call_during_restart_is_retried_once_after_three_seconds() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    scene.forbid("one");
    scene.noticed("one").await;
    let (answer, ()) = tokio::join!(scene.execute("a", json!({})), async { scene.allow("one") });
    assert_eq!(answer, done());
}

#[tokio::test]
async fn call_of_ended_server_fails_after_one_retry() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    scene.forbid("one");
    scene.noticed("one").await;
    let started = Instant::now();
    let failed = scene.execute("a", json!({})).await;
    assert_eq!(failed["code"], "AGENT_UNAVAILABLE", "{failed}");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test]
async fn failed_call_keeps_server_registered() {
    let crashing = Server {
        name: "one",
        tools: &["crash", "a"],
        call: "case $line in *crash*) exit 3;; *) text done;; esac",
    };
    let scene = Scene::ready(&[crashing], &[]).await;
    let failed = scene.execute("crash", json!({})).await;
    assert_eq!(
        (&failed["code"], &failed["details"]["may_have_run"]),
        (&json!("TOOL_EXECUTION_FAILED"), &json!(true)),
        "the tool may have effects: {failed}"
    );
    eventually("it is called again", || async { scene.execute("a", json!({})).await == done() })
        .await;
    assert!(scene.standalone.has("crash").await);
}

#[tokio::test]
async fn killed_server_is_rediscovered_with_its_tools() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    scene.forbid("one");
    eventually_within(DETECTION, "it is down", || async {
        scene.target("one").await["healthy"] == false
    })
    .await;
    // Another release of the server has another tool.
    quick("one", &["a", "b"]).entry(scene.scripts.path());
    scene.allow("one");
    eventually("its new tool is listed", || scene.standalone.has("b")).await;
    assert_eq!(scene.execute("b", json!({})).await, done());
}

#[tokio::test]
async fn killed_server_is_unreachable_over_aio_until_it_returns() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    let called = async || {
        let body = json!({ "method": "one::tools.call", "params": { "tool": "a" } }).to_string();
        json_of(scene.request(Method::POST, "/rpc").body(body)).await
    };
    let content = json!([{ "type": "text", "value": "done" }]);
    assert_eq!(called().await["result"]["content"], content);
    scene.forbid("one");
    scene.noticed("one").await;
    let failed = called().await;
    let error = &failed["error"];
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32001), &json!("UNREACHABLE")),
        "{failed}"
    );
    scene.allow("one");
    eventually("it is called again", || async { called().await["result"]["content"] == content })
        .await;
}

#[tokio::test]
async fn shutdown_ends_stubborn_servers_in_parallel() {
    let names = ["one", "two", "three", "four"];
    let tools = names.map(|name| [name]);
    // They ignore SIGTERM and the end of their input.
    let call = "trap '' TERM; text done; while :; do sleep 1; done";
    let servers: Vec<_> = names
        .iter()
        .zip(&tools)
        .map(|(name, tools)| Server { name, tools: &tools[..], call })
        .collect();
    let mut scene = Scene::ready(&servers, &[]).await;
    for name in names {
        assert_eq!(scene.execute(name, json!({})).await, done());
    }
    let started = Instant::now();
    let status = scene.standalone.gateway.stop();
    assert!(status.success(), "{status:?}");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    for name in names {
        let id = scene.file(name, "pid").trim().to_owned();
        eventually("its process has ended", || async { !Path::new("/proc").join(&id).exists() })
            .await;
    }
}
