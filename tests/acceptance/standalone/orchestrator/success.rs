//! SC-001 to SC-006, and FR-013: measured outcomes, and programs that keep working.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Instant,
};

use acceptance::eventually_within;

use super::*;

/// The time limit of routing, without the tool.
const ROUTING: Duration = Duration::from_secs(5);

#[tokio::test]
async fn sc_001_routing_takes_less_than_five_seconds() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    let calls = (0..50).map(|_| async {
        let started = Instant::now();
        assert_eq!(scene.execute("a", json!({})).await, done());
        started.elapsed()
    });
    let longest = futures_util::future::join_all(calls).await.into_iter().max();
    assert!(longest.is_some_and(|took| took < ROUTING), "{longest:?}");
}

/// The result of a call without the gateway.
fn direct_result(scene: &Scene, server: &str, tool: &str) -> Value {
    let script = scene.scripts.path().join(format!("{server}.sh"));
    let mut child = Command::new("sh")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let params = json!({ "name": tool, "arguments": {} });
    let call = json!({ "id": 1, "jsonrpc": "2.0", "method": "tools/call", "params": params });
    let mut input = child.stdin.take().expect("standard input is piped");
    writeln!(input, "{call}").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["result"]["content"].clone()
}

#[tokio::test]
async fn sc_002_fr_013_direct_and_routed_results_are_equal() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    let direct = direct_result(&scene, "one", "a");
    assert_eq!(direct, done()["data"]["content"]);
    assert_eq!(scene.execute("a", json!({})).await["data"]["content"], direct);
    let over_mcp = scene.standalone.client().call("a", json!({})).await;
    assert_eq!(over_mcp.result()["content"], direct);
}

#[tokio::test]
async fn sc_003_killed_server_is_detected_within_ten_seconds() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    scene.forbid("one");
    eventually_within(DETECTION, "its tools are marked", || async {
        scene.availability("a").await == "unavailable"
    })
    .await;
    let failed = scene.execute("a", json!({})).await;
    assert_eq!(failed["code"], "AGENT_UNAVAILABLE", "{failed}");
}

#[tokio::test]
async fn sc_004_ten_servers_with_fifty_tools_are_routed() {
    let names: Vec<_> = (0..10).map(|server| format!("server{server}")).collect();
    let tools: Vec<Vec<_>> =
        (0..10).map(|server| (0..5).map(|tool| format!("tool{server}x{tool}")).collect()).collect();
    let tools: Vec<Vec<&str>> =
        tools.iter().map(|tools| tools.iter().map(String::as_str).collect()).collect();
    let servers: Vec<_> =
        names.iter().zip(&tools).map(|(name, tools)| quick(name, tools)).collect();
    let scene = Scene::ready(&servers, &[]).await;
    let manifest = scene.get("/manifest?format=anthropic").await;
    assert_eq!(manifest["tools"].as_array().map(Vec::len), Some(50));
    let calls = tools.iter().flatten().map(|tool| {
        let scene = &scene;
        async move {
            let started = Instant::now();
            assert_eq!(scene.execute(tool, json!({})).await, done(), "{tool}");
            started.elapsed()
        }
    });
    let longest = futures_util::future::join_all(calls).await.into_iter().max();
    assert!(longest.is_some_and(|took| took < ROUTING), "{longest:?}");
    for server in names {
        assert_eq!(scene.target(&server).await["healthy"], true);
    }
}

#[tokio::test]
async fn sc_005_health_answers_within_a_second() {
    let hanging = Server { name: "hangs", tools: &["wait"], call: "sleep 1000" };
    let scene = Scene::ready(&[hanging, quick("one", &["a"])], &[]).await;
    let waiting = scene.execute("wait", json!({}));
    let health = async {
        eventually("it hangs", || async { !scene.file("hangs", "calls").is_empty() }).await;
        for server in ["hangs", "one"] {
            let body = json!({ "server": format!("server/{server}@*") }).to_string();
            let url = format!("{}/admin/targets/health", scene.admin());
            let started = Instant::now();
            let shown = json_of(scene.http.post(url).body(body)).await;
            assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
            assert!(shown["healthy"].is_boolean(), "{shown}");
        }
    };
    tokio::select! {
        answer = waiting => panic!("the call was answered: {answer}"),
        () = health => {}
    }
}

#[tokio::test]
async fn sc_006_clients_of_mcp_keep_working_during_changes() {
    let scene = Scene::ready(&[quick("one", &["a"]), quick("two", &["b"])], &[]).await;
    let client = scene.standalone.client();
    let works = async || {
        let answer = client.call("b", json!({})).await;
        assert_eq!(answer.result()["content"], done()["data"]["content"]);
    };
    works().await;
    scene.forbid("one");
    works().await;
    assert!(scene.gateway_command(&["stop", "--yes", "one@*"]).success());
    works().await;
    scene.allow("one");
    assert!(scene.gateway_command(&["start", "--yes", "one@*"]).success());
    works().await;
    eventually("the tools of both are listed", || async {
        scene.standalone.tools().await.len() == 2
    })
    .await;
}
