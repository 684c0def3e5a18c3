//! Virtual tools as in docs/virtual-tools.md: renamed tools, changed arguments and projected
//! results, in both eras with the demo servers.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, ctl, eventually, root};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::documented_commands;

/// A gateway with the example's configuration and test addresses. `changed` edits the registry
/// file.
async fn example(backend: &Backend, changed: impl FnOnce(&mut Value)) -> (Gateway, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let text = std::fs::read_to_string(root().join("examples/virtual-tools.json")).expect("a file");
    let mut registry: Value = serde_json::from_str(&text).expect("JSON");
    changed(&mut registry);
    let path = dir.path().join("registry.json");
    std::fs::write(&path, registry.to_string()).expect("written");
    let config = std::fs::read_to_string(root().join("examples/virtual-tools.yaml")).expect("one");
    let config = config.replace("127.0.0.1:7090", &backend.process.address());
    let block = |name: &str| {
        let start = config.find(&format!("\n{name}:")).expect("the block exists") + 1;
        let end = config[start..].find("\n\n").map_or(config.len(), |end| start + end + 1);
        config[start..end].to_owned()
    };
    let runtime = "{ inputValidation: deny, outputValidation: deny }".to_owned();
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", path.display()),
        targets: block("targets"),
        runtime: Some(runtime),
        more: block("variables"),
    });
    gateway.ready().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("inherited members are known", || async {
        let tools = client.tools().await;
        tools.iter().all(|tool| tool.get("annotations").is_some())
    })
    .await;
    (gateway, dir)
}

#[tokio::test]
async fn documented_commands_print_documented_output() {
    let backend = Backend::start();
    let (gateway, _dir) = example(&backend, |_| {}).await;
    documented_commands::assert_output("docs/virtual-tools.md", &gateway);
}

#[tokio::test]
async fn documented_tools_match_example() {
    let page = std::fs::read_to_string(root().join("docs/virtual-tools.md")).expect("a page");
    let text = std::fs::read_to_string(root().join("examples/virtual-tools.json")).expect("a file");
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let (example, mut parts) = (plain(&text), 0);
    for block in page.split("```json\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        for part in block.split('…') {
            let part = plain(part);
            // Excerpts in the page may start and end anywhere.
            let part = part.trim_matches(['{', '}', ',']);
            assert!(example.contains(part), "not in the example: {part}");
            parts += 1;
        }
    }
    assert!(parts >= 3, "the page shows excerpts");
}

#[tokio::test]
async fn missing_fields_default_to_upstream() {
    let backend = Backend::start();
    let (gateway, _dir) = example(&backend, |_| {}).await;
    let direct = format!("http://{}/fetch/mcp", backend.process.address());
    let upstream = ModernClient::anonymous(&direct).tools().await.remove(0);
    let tools = ModernClient::anonymous(&gateway.mcp_url()).tools().await;
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).expect(name);
    let alias = find("read_page");
    for member in ["description", "annotations", "inputSchema", "outputSchema"] {
        assert_eq!(alias[member], upstream[member], "{member}");
    }
    let card = find("page_card");
    assert_eq!(card["description"], "What a web page is, without its text");
    assert_eq!(card["annotations"], upstream["annotations"]);
    assert_eq!(card.get("outputSchema"), None, "the upstream's is about something else");
    let input = &card["inputSchema"];
    assert!(upstream["inputSchema"]["properties"].get("maxLength").is_some());
    assert!(!input.to_string().contains("maxLength"), "{input}");
    let search = find("search_handbook");
    assert_eq!(search["outputSchema"]["properties"]["index"], json!({ "const": "handbook" }));
    let text = search["inputSchema"].to_string();
    assert!(!text.contains("\"tags\"") && !text.contains("\"author\""), "{text}");
    assert!(text.contains("\"dateRange\""), "its neighbour stays: {text}");
}

#[tokio::test]
async fn nested_hidden_field_keeps_its_default() {
    let backend = Backend::start();
    let (gateway, _dir) = example(&backend, |_| {}).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let titles = async |arguments: Value| {
        let answer = client.call("search_handbook", arguments).await;
        assert!(!answer.is_tool_error(), "{answer:?}");
        let hits = &answer.result()["structuredContent"]["hits"];
        hits.as_array()
            .expect("hits")
            .iter()
            .map(|hit| hit["title"].to_string())
            .collect::<Vec<_>>()
    };
    let only = ["\"Gateway operations handbook\""];
    assert_eq!(titles(json!({ "query": "registry gateway research" })).await, only);
    let range = json!({ "start": "2026-01-01" });
    let beside = json!({ "query": "registry gateway", "filters": { "dateRange": range } });
    assert_eq!(titles(beside).await, only);
    for filters in
        [json!({ "tags": ["research"] }), json!({ "author": "x" }), json!({ "tags": null })]
    {
        let arguments = json!({ "query": "gateway", "filters": filters });
        let answer = client.call("search_handbook", arguments).await;
        assert!(answer.is_tool_error() && answer.text().contains("/filters/"), "{answer:?}");
    }
    // A value that is not an object cannot contain the hidden member.
    for filters in [json!("tags"), json!([{ "tags": ["research"] }])] {
        let arguments = json!({ "query": "gateway", "filters": filters });
        assert!(client.call("search_handbook", arguments).await.is_tool_error());
    }
}

#[tokio::test]
async fn undefined_variable_fails_call() {
    let backend = Backend::start();
    let rename = |registry: &mut Value| {
        registry["tools"][2]["source"]["defaults"]["filters"]["tags"] = json!(["${PATH}"]);
    };
    let (gateway, _dir) = example(&backend, rename).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let answer = client.call("search_handbook", json!({ "query": "gateway" })).await;
    assert_eq!(answer.error_code(), -32603);
    let text = answer.message["error"]["message"].as_str().expect("a message");
    assert!(text.contains("PATH") && text.contains("/filters"), "{text}");
}

#[tokio::test]
async fn failed_projection_returns_nothing_and_is_audited() {
    let backend = Backend::start();
    let multiply = |registry: &mut Value| {
        let wild = "[*,*]".repeat(40);
        registry["tools"][3]["outputTransform"]["mappings"]["missing"] =
            json!({ "path": format!("${wild}") });
        registry["tools"][2]["outputSchema"]["properties"]["total"] = json!({ "type": "string" });
    };
    let (gateway, _dir) = example(&backend, multiply).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let card = client.call("page_card", json!({ "url": "https://example.com" })).await;
    assert!(card.is_tool_error(), "{card:?}");
    assert!(card.text().contains("/mappings/missing/path"), "{card:?}");
    assert!(!card.message.to_string().contains("Example"), "{card:?}");
    let search = client.call("search_handbook", json!({ "query": "gateway" })).await;
    assert!(search.is_tool_error() && search.text().contains("- /total"), "{search:?}");
    assert!(!search.message.to_string().contains("Mensah"), "{search:?}");
    let log = gateway.process.stderr();
    let audited = log.lines().find(|line| line.contains("audit") && line.contains("page_card"));
    let audited = audited.expect("an event");
    assert!(
        audited.contains("invalid-output") && audited.contains("/mappings/missing"),
        "{audited}"
    );
    // An error of the tool itself is returned.
    let refused = client.call("page_card", json!({ "url": "https://nowhere" })).await;
    assert!(refused.is_tool_error() && !refused.text().contains("/mappings"), "{refused:?}");
}

#[test]
fn legacy_fields_are_read_and_contradictions_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("registry.json");
    let validated = |tool: Value| {
        let provides = json!([{ "tool": "t", "version": "1.0.0" }]);
        let server = json!({ "name": "s", "version": "1.0.0", "provides": provides });
        let registry = json!({ "schemaVersion": "2.0", "servers": [server], "tools": [tool] });
        std::fs::write(&file, registry.to_string()).expect("written");
        ctl("http://127.0.0.1:1", &["validate", "-f", file.to_str().expect("UTF-8")])
    };
    let tool = |source: Value, beside: Value| {
        let mut tool = json!({ "name": "t", "version": "1.0.0", "source": source });
        tool.as_object_mut().expect("an object").extend(beside.as_object().expect("one").clone());
        tool
    };
    let old = json!({ "target": "s", "serverVersion": "1.0.0", "tool": "t" });
    let beside = json!({ "defaults": { "n": 1 }, "hideFields": ["n"] });
    let valid = validated(tool(old.clone(), beside.clone()));
    assert!(valid.success(), "{valid:?}");
    let mut both = old;
    both["server"] = json!("other");
    let refused = validated(tool(both, json!({})));
    assert!(refused.has_code("document-invalid"), "{refused:?}");
    assert!(refused.stderr.contains("`target`"), "{refused:?}");
    let new = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t", "hideFields": ["m"] });
    let refused = validated(tool(new, beside));
    assert!(refused.has_code("document-invalid"), "{refused:?}");
    assert!(refused.stderr.contains("`source`"), "{refused:?}");
}
