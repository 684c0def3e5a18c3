//! Virtual tools: another name, other arguments, another result; what docs/virtual-tools.md says, in
//! both eras, with the demo servers behind it.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, ctl, eventually, root};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::page;

/// A gateway with the example's own configuration, but for the addresses; `changed` is the registry.
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
        let start = config.find(&format!("\n{name}:")).expect("the block is there") + 1;
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
    eventually("what is inherited is known", || async {
        let tools = client.tools().await;
        tools.iter().all(|tool| tool.get("annotations").is_some())
    })
    .await;
    (gateway, dir)
}

#[tokio::test]
async fn every_command_of_the_page_shows_what_the_page_says_in_both_eras() {
    let backend = Backend::start();
    let (gateway, _dir) = example(&backend, |_| {}).await;
    page::shows("docs/virtual-tools.md", &gateway);
}

#[tokio::test]
async fn the_page_s_tools_are_those_of_the_example() {
    let page = std::fs::read_to_string(root().join("docs/virtual-tools.md")).expect("a page");
    let text = std::fs::read_to_string(root().join("examples/virtual-tools.json")).expect("a file");
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let (example, mut parts) = (plain(&text), 0);
    for block in page.split("```json\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        for part in block.split('…') {
            let part = plain(part);
            // An excerpt begins and ends where the page needs it to.
            let part = part.trim_matches(['{', '}', ',']);
            assert!(example.contains(part), "not in the example: {part}");
            parts += 1;
        }
    }
    assert!(parts >= 3, "the page shows excerpts");
}

#[tokio::test]
async fn what_a_document_leaves_open_is_the_upstreams() {
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
async fn a_nested_hidden_field_has_its_value_whatever_the_caller_sends_beside_it() {
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
    // What is no object has no place for the hidden part.
    for filters in [json!("tags"), json!([{ "tags": ["research"] }])] {
        let arguments = json!({ "query": "gateway", "filters": filters });
        assert!(client.call("search_handbook", arguments).await.is_tool_error());
    }
}

#[tokio::test]
async fn a_variable_without_a_value_fails_the_call_and_is_named() {
    let backend = Backend::start();
    let rename = |registry: &mut Value| {
        registry["tools"][2]["source"]["defaults"]["filters"]["tags"] = json!(["${PATH}"]);
    };
    let (gateway, _dir) = example(&backend, rename).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let answer = client.call("search_handbook", json!({ "query": "gateway" })).await;
    assert_eq!(answer.error_code(), -32603);
    let text = answer.message["error"]["message"].as_str().expect("a message");
    assert!(text.contains("variable PATH") && text.contains("/filters"), "{text}");
    assert!(text.contains("was not called"), "{text}");
}

#[tokio::test]
async fn a_projection_that_does_not_fit_shows_nothing_and_is_audited() {
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
    assert!(!card.message.to_string().contains("Example Domain"), "{card:?}");
    let search = client.call("search_handbook", json!({ "query": "gateway" })).await;
    assert!(search.is_tool_error() && search.text().contains("- /total"), "{search:?}");
    assert!(!search.message.to_string().contains("Bo Mensah"), "{search:?}");
    let log = gateway.process.stderr();
    let audited = log.lines().find(|line| line.contains("audit") && line.contains("page_card"));
    let audited = audited.expect("an event");
    assert!(
        audited.contains("invalid-output") && audited.contains("/mappings/missing"),
        "{audited}"
    );
    // An error of the tool itself is told.
    let refused = client.call("page_card", json!({ "url": "https://nowhere" })).await;
    assert!(refused.text().contains("known pages"), "{refused:?}");
}

#[test]
fn old_forms_are_read_and_contradictions_refused() {
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
    assert!(refused.stderr.contains("`target` says `s`, but `server` says `other`"), "{refused:?}");
    let new = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t", "hideFields": ["m"] });
    let refused = validated(tool(new, beside));
    assert!(refused.stderr.contains("inside `source` and beside it"), "{refused:?}");
}
