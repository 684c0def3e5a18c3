//! Changes of the file while the gateway runs.

use std::fs;

use acceptance::eventually;
use serde_json::json;

use super::{Standalone, mcp_servers, npm, pypi, write};

#[tokio::test]
async fn changed_file_is_reloaded() {
    let time = ("time", pypi("mcp_server_time"));
    let standalone = Standalone::start(&mcp_servers([time.clone()]), &[]);
    eventually("the server is served", || standalone.has("get_current_time")).await;
    let think = ("think", npm("sequential-thinking", &[]));
    write(standalone.dir.path(), &mcp_servers([time.clone(), think.clone()]));
    eventually("the added server is served", || standalone.has("sequentialthinking")).await;
    assert!(standalone.has("get_current_time").await);
    write(standalone.dir.path(), &mcp_servers([think]));
    eventually("the removed server is gone", || async {
        !standalone.has("get_current_time").await
    })
    .await;
    let answer = standalone.client().call("get_current_time", json!({ "timezone": "UTC" })).await;
    assert_eq!(answer.error_code(), -32602, "{answer:?}");
}

#[tokio::test]
async fn invalid_file_changes_nothing() {
    let standalone = Standalone::start(&mcp_servers([("time", pypi("mcp_server_time"))]), &[]);
    let path = standalone.dir.path().join("servers.json");
    fs::write(&path, "{ \"mcpServers\": {").expect("written");
    let failed = "ERROR gateway_agent::server::reload: ";
    let is_logged = async || {
        let log = standalone.log();
        log.split_once(failed).is_some_and(|(_, problem)| problem.contains("servers.json: line 1"))
    };
    eventually("the failure is logged", is_logged).await;
    eventually("the server is served", || standalone.has("get_current_time")).await;
}
