//! Calls of tools, resources, prompts and skills, and their errors.

use serde_json::{Value, json};

use super::harness::{AioBench, reason};

#[tokio::test]
async fn lists_have_the_callers_entries() {
    let bench = AioBench::start([]).await;
    let tools = bench.result("math_agent::tools.list", json!({})).await;
    let names: Vec<_> =
        tools["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(
        names,
        ["math_agent.calculate_area", "math_agent.fails", "math_agent.pictures"],
        "{tools}"
    );
    let prompts = bench.result("agent::prompts.list", json!({})).await;
    assert_eq!(prompts, json!({ "prompts": [{ "name": "greet", "title": "Greeting" }] }));
}

#[tokio::test]
async fn help_describes_agents_of_both_types() {
    let bench = AioBench::start([]).await;
    let help = bench.result("writer::help", json!({})).await;
    let modules = json!({ "resources": false, "prompts": false, "tools": false, "sampling": true });
    assert_eq!(
        (&help["type"], &help["version"], &help["mcp"]),
        (&json!("http"), &json!("1.0.0"), &modules)
    );
    assert_eq!(help["modalities"], json!(["text", "image", "file"]));
    assert_eq!(help["methods"][0]["name"], "draft");
    let help = bench.result("math_agent::help", json!({})).await;
    assert_eq!(help["methods"][0]["name"], "calculate_area");
    assert_eq!(help["methods"][0]["description"], "Calculates an area.");
    assert_eq!(help["methods"][0]["inputSchema"]["type"], "object");
}

#[tokio::test]
async fn contents_become_values() {
    let bench = AioBench::start([]).await;
    let result = bench.result("math_agent::tools.call", json!({ "tool": "pictures" })).await;
    assert_eq!(
        result["content"],
        json!([
            { "type": "image", "value": "iVBORw==" },
            { "type": "audio", "value": "https://x.example/a.mp3" },
            { "type": "file", "value": { "type": "smell", "n": 1 } },
        ])
    );
    let result = bench.result("agent::resources.get", json!({ "id": "doc-001" })).await;
    let content = json!({ "id": "doc-001", "type": "file", "value": "JVBERi0xLjc=" });
    assert_eq!(result, json!({ "contents": [content] }));
    let params = json!({ "name": "greet", "args": { "who": "x" } });
    let result = bench.result("agent::prompts.get", params).await;
    let content = json!([{ "type": "text", "value": r#"{"who":"x"}"# }]);
    assert_eq!(result["messages"], json!([{ "role": "user", "content": content }]));
}

#[tokio::test]
async fn tool_is_found_with_and_without_its_agent() {
    let bench = AioBench::start([]).await;
    for tool in ["calculate_area", "math_agent.calculate_area"] {
        let params = json!({ "tool": tool, "args": { "x": 1 } });
        let result = bench.result("math_agent::tools.call", params).await;
        assert_eq!(result["structuredContent"], json!({ "x": 1 }));
    }
    let sent = bench.mcp.seen("tools/call");
    assert!(sent.iter().all(|seen| seen.body["params"]["name"] == "echo"));
}

#[tokio::test]
async fn skills_are_called_by_name_and_input() {
    let bench = AioBench::start([]).await;
    let result = bench.result("writer::draft", json!({ "text": "tea" })).await;
    assert_eq!(result, json!({ "output": [{ "type": "text", "value": "tea" }] }));
    let result = bench.result("writer::count", json!({ "n": 2 })).await;
    assert_eq!(result["output"], json!([{ "type": "file", "value": { "n": 2 } }]));
    for input in [
        json!({ "type": "text", "value": "tea" }),
        json!({ "type": "image", "value": "iVBORw==" }),
        json!({ "type": "file", "value": { "n": 1 } }),
    ] {
        let result = bench.result("writer::input", json!({ "input": input })).await;
        assert_eq!(result["output"], json!([input]));
    }
    let sent = bench.writer.seen("SendMessage");
    let skills: Vec<_> =
        sent.iter().map(|seen| &seen.body["params"]["message"]["metadata"]["skillId"]).collect();
    assert_eq!(skills, ["draft", "count", "draft", "draft", "count"]);
}

#[tokio::test]
async fn failures_have_codes_and_reasons() {
    let bench = AioBench::start([]).await;
    let call = |tool: &str, args: Value| json!({ "tool": tool, "args": args });
    for (method, params, code, expected) in [
        ("math_agent::tools.call", call("fails", json!({})), -32000, "TOOL_ERROR"),
        ("math_agent::tools.call", call("absent", json!({})), -32601, "FUNCTION_NOT_FOUND"),
        ("math_agent::tools.call", call("hidden", json!({})), -32601, "FUNCTION_NOT_FOUND"),
        ("math_agent::tools.call", call("llm_agent.chat", json!({})), -32601, "FUNCTION_NOT_FOUND"),
        (
            "math_agent::tools.call",
            call("calculate_area", json!({ "x": "y" })),
            -32602,
            "INVALID_PARAMS",
        ),
        ("math_agent::tools.delete", json!({}), -32601, "METHOD_NOT_FOUND"),
        ("math_agent::resources.list", json!({}), -32601, "METHOD_NOT_FOUND"),
        ("math_agent::sampling.step", json!({ "session": "x" }), -32601, "METHOD_NOT_FOUND"),
        ("math_agent::calculate_area", json!({}), -32601, "FUNCTION_NOT_FOUND"),
        (
            "math_agent::input",
            json!({ "input": { "type": "text", "value": "x" } }),
            -32601,
            "METHOD_NOT_FOUND",
        ),
        ("writer::tools.list", json!({}), -32601, "METHOD_NOT_FOUND"),
        ("writer::draft", json!({}), -32602, "INVALID_PARAMS"),
        ("writer::count", json!({ "n": "x" }), -32602, "INVALID_PARAMS"),
        ("writer::draft", json!({ "text": "fail" }), -32000, "TOOL_ERROR"),
        ("writer::draft", json!({ "text": "ask" }), -32000, "TOOL_ERROR"),
        ("absent::help", json!({}), -32000, "AGENT_NOT_FOUND"),
        ("absent::tools.call", call("x", json!({})), -32000, "AGENT_NOT_FOUND"),
        ("stranger::help", json!({}), -32000, "AGENT_NOT_FOUND"),
    ] {
        let found = bench.refused(method, params.clone()).await;
        assert_eq!(found, (code, expected.to_owned()), "{method} {params}");
    }
}

#[tokio::test]
async fn invalid_input_has_its_pointer() {
    let bench = AioBench::start([]).await;
    let file = json!({ "type": "file", "value": { "n": "x" } });
    let area = json!({ "tool": "calculate_area", "args": { "x": "y" } });
    for (method, params, pointer) in [
        ("math_agent::tools.call", area, "/args/x"),
        ("writer::count", json!({ "n": "x" }), "/n"),
        ("writer::input", json!({ "input": file }), "/input/value/n"),
        ("agent::resources.get", json!({}), "/uri"),
    ] {
        let answer = bench.sent(&json!({ "method": method, "params": params }).to_string()).await;
        assert_eq!(answer["error"]["data"]["pointer"], pointer, "{answer}");
    }
}

#[tokio::test]
async fn unknown_method_lists_available_ones() {
    let bench = AioBench::start([]).await;
    for (method, expected) in [
        ("math_agent::tools.delete", json!(["help", "tools.list", "tools.call"])),
        (
            "writer::absent",
            json!(["help", "input", "sampling.start", "sampling.step", "draft", "count"]),
        ),
    ] {
        let answer = bench.sent(&json!({ "method": method }).to_string()).await;
        assert_eq!(answer["error"]["data"]["available_methods"], expected, "{answer}");
    }
    let answer = bench.sent_by("stranger", r#"{"method":"writer::help"}"#).await;
    assert_eq!(reason(&answer), (-32000, "AGENT_NOT_FOUND".to_owned()));
    assert!(answer["error"]["data"].get("available_methods").is_none(), "{answer}");
}
