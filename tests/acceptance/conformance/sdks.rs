//! The official SDKs and the Inspector as clients of the gateway: all MCP features in both eras,
//! and elicitation by servers that speak one era each (`client.py`, `client.mjs`).

use std::process::Command;

use serde_json::Value;

use super::everything::{Everything, fixture, official};

/// Runs a client and returns its output.
pub(crate) fn run(mut client: Command) -> String {
    let output = client.output().expect("the client starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client:?}:\n{said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn python_sdk_uses_all_features_in_both_eras() {
    let everything = Everything::with_one_era_servers().await;
    for era in ["legacy", "modern"] {
        let mut client = official().python();
        client.arg(fixture("client.py")).args([era, &everything.gateway.mcp_url()]);
        run(client);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_sdks_use_all_features_in_both_eras() {
    let everything = Everything::with_one_era_servers().await;
    for sdk in ["first", "legacy", "modern"] {
        let mut client = official().node(&fixture("client.mjs"));
        client.arg(official().modules()).args([sdk, &everything.gateway.mcp_url()]);
        run(client);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inspector_uses_all_features() {
    let everything = Everything::start().await;
    let inspect = |arguments: &[&str]| -> Value {
        let inspector = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
        let mut client = official().node(&official().modules().join(inspector));
        client.args(["--cli", &everything.gateway.mcp_url()]).args(arguments);
        let printed = run(client);
        serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"))
    };
    for era in ["legacy", "modern"] {
        let ask = |arguments: &[&str]| inspect(&[arguments, &["--protocol-era", era]].concat());
        let names = |list: &Value, member: &str| -> Vec<String> {
            let list = list.as_array().expect("a list").iter();
            list.map(|entry| entry[member].as_str().expect("a text").to_owned()).collect()
        };
        let tools = names(&ask(&["--method", "tools/list"])["tools"], "name");
        assert!(tools.iter().any(|tool| tool == "test_simple_text"), "{tools:?}");
        let called = ask(&["--method", "tools/call", "--tool-name", "test_simple_text"]);
        assert_eq!(called["content"][0]["text"], "This is a simple text response for testing.");
        let prompts = names(&ask(&["--method", "prompts/list"])["prompts"], "name");
        assert!(prompts.iter().any(|prompt| prompt == "test_simple_prompt"), "{prompts:?}");
        let resources = names(&ask(&["--method", "resources/list"])["resources"], "uri");
        assert!(resources.iter().any(|uri| uri == "test://static-text"), "{resources:?}");
        let read = ask(&["--method", "resources/read", "--uri", "test://static-text"]);
        assert_eq!(read["contents"][0]["text"], "This is the content of the static text resource.");
    }
}
