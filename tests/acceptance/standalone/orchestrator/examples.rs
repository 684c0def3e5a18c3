//! FR-001, FR-002 and FR-010: the programs in `examples/agents`.

use std::{
    path::PathBuf,
    process::{Child, Command},
};

use acceptance::root;

use super::*;
use crate::{
    conformance::{official, run as output_of},
    demo::python_of_agents,
};

/// The lines of `demo`: a wrapped function, a function that never ends, a tool of the gateway, an
/// agent that the gateway does not know, an agent without a factory, and a manifest.
const PRINTED: &str = r#"true {"saved":2}
false TOOL_EXECUTION_TIMEOUT
true {"content":[{"type":"text","text":"done"}]}
false AGENT_NOT_FOUND
false AGENT_NOT_FOUND
["a","b"]
"#;

fn example(path: &str) -> PathBuf {
    root().join("examples/agents").join(path)
}

async fn assert_prints(mut demo: Command) {
    let scene = Scene::ready(&[quick("one", &["a", "b"])], &[]).await;
    demo.arg(format!("http://{}", scene.standalone.gateway.address())).args(["one", "a"]);
    assert_eq!(output_of(demo), PRINTED);
}

#[tokio::test(flavor = "multi_thread")]
async fn fr_001_002_010_python_agents_wrap_functions() {
    let mut demo = official().python();
    demo.arg("-B").arg(example("python/demo.py"));
    assert_prints(demo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fr_001_002_010_typescript_agents_wrap_functions() {
    assert_prints(official().node(&example("typescript/demo.ts"))).await;
}

/// Calls the function of a data agent over `/execute` and over MCP, and ends the agent.
async fn assert_serves(mut program: Command) {
    let settings = "agents: { selfRegistration: accept }\n";
    let servers = [quick("one", &["a"])];
    let start = Start { servers: &servers, settings, ..Start::default() };
    let scene = Scene::listed(start).await;
    program.arg(format!("ws://{}/rpc", scene.standalone.gateway.address()));
    let program = Program(program.spawn().expect("it starts"));
    let input = json!({ "text": "one two three" });
    eventually("the function is called", || async {
        let answer = scene.execute("texts.count_words", input.clone()).await;
        answer == json!({ "success": true, "data": { "words": 3 } })
    })
    .await;
    let over_mcp = scene.standalone.client().call("texts.count_words", input.clone()).await;
    assert_eq!(over_mcp.result()["structuredContent"]["words"], 3, "{over_mcp:?}");
    let manifest = scene.get("/agents/texts/manifest").await;
    assert_eq!(manifest["tools"], json!(["texts.count_words"]), "{manifest}");
    drop(program);
    eventually("the function is marked", || async {
        scene.availability("texts.count_words").await == "unavailable"
    })
    .await;
    let failed = scene.execute("texts.count_words", input).await;
    assert_eq!(failed["code"], "AGENT_UNAVAILABLE", "{failed}");
}

/// A running program; killed when dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn function_of_python_is_a_data_agent() {
    let mut program = python_of_agents().python();
    program.arg(example("python/function_agent.py"));
    assert_serves(program).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn function_of_typescript_is_a_data_agent() {
    assert_serves(official().node(&example("typescript/function_agent.ts"))).await;
}
