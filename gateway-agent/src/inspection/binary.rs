//! The places of images, audio and other binary content in results of MCP, and of files in answers
//! of A2A.

use gateway_protocol::jsonrpc::Object;
use serde_json::value::RawValue;

/// The pointers of the base64 texts of binary content. Text in these members is not inspected.
pub(super) fn pointers(result: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(result) = serde_json::from_str::<&RawValue>(result) {
        collect(result, "", &mut found);
    }
    found
}

/// The pointers of the base64 texts of files in an answer or event of A2A.
pub(super) fn pointers_of_agent(answer: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(answer) = serde_json::from_str::<&RawValue>(answer) else { return found };
    // The answer is a task itself, or has one member with its content.
    agent_task(answer, "", &mut found);
    let members = Object::parse(answer).unwrap_or_default();
    for (name, read) in [
        ("task", agent_task as Read),
        ("message", parts),
        ("statusUpdate", agent_status),
        ("artifactUpdate", agent_artifact),
    ] {
        if let Some(content) = members.find(name) {
            read(content, &format!("/{name}"), &mut found);
        }
    }
    found
}

fn agent_task(task: &RawValue, at: &str, found: &mut Vec<String>) {
    let members = Object::parse(task).unwrap_or_default();
    agent_status(task, at, found);
    for name in ["artifacts", "history"] {
        if let Some(list) = members.find(name) {
            each(list, &format!("{at}/{name}"), parts, found);
        }
    }
}

fn agent_status(of: &RawValue, at: &str, found: &mut Vec<String>) {
    let status = Object::parse(of).ok().and_then(|members| members.find("status"));
    let said = status.and_then(|status| Object::parse(status).ok()?.find("message"));
    if let Some(said) = said {
        parts(said, &format!("{at}/status/message"), found);
    }
}

fn agent_artifact(update: &RawValue, at: &str, found: &mut Vec<String>) {
    let artifact = Object::parse(update).ok().and_then(|members| members.find("artifact"));
    if let Some(artifact) = artifact {
        parts(artifact, &format!("{at}/artifact"), found);
    }
}

/// The parts of a message or an artifact.
fn parts(of: &RawValue, at: &str, found: &mut Vec<String>) {
    let parts = Object::parse(of).ok().and_then(|members| members.find("parts"));
    if let Some(parts) = parts {
        each(parts, &format!("{at}/parts"), part, found);
    }
}

fn part(part: &RawValue, at: &str, found: &mut Vec<String>) {
    if Object::parse(part).is_ok_and(|members| members.find("raw").is_some()) {
        found.push(format!("{at}/raw"));
    }
}

/// Collects from a result, or from the result of a task in it.
fn collect(result: &RawValue, at: &str, found: &mut Vec<String>) {
    let Ok(members) = Object::parse(result) else { return };
    for (name, read) in
        [("content", block as Read), ("contents", resource as Read), ("messages", message as Read)]
    {
        if let Some(list) = members.find(name) {
            each(list, &format!("{at}/{name}"), read, found);
        }
    }
    if let Some(result) = members.find("result").filter(|_| at.is_empty()) {
        collect(result, "/result", found);
    }
    let requests = members.find("inputRequests").map(Object::parse);
    for request in requests.and_then(Result::ok).unwrap_or_default().members() {
        let name = request.name.replace('~', "~0").replace('/', "~1");
        let params = Object::parse(request.value).ok().and_then(|request| request.find("params"));
        if let Some(params) = params {
            question(params, &format!("{at}/inputRequests/{name}/params"), found);
        }
    }
}

/// The parameters of a question of a server.
fn question(params: &RawValue, at: &str, found: &mut Vec<String>) {
    let messages = Object::parse(params).ok().and_then(|members| members.find("messages"));
    if let Some(messages) = messages {
        each(messages, &format!("{at}/messages"), message, found);
    }
}

type Read = fn(&RawValue, &str, &mut Vec<String>);

/// Reads the items of an array, or the value itself.
fn each(list: &RawValue, at: &str, read: Read, found: &mut Vec<String>) {
    match serde_json::from_str::<Vec<&RawValue>>(list.get()) {
        Ok(items) => {
            for (index, item) in items.into_iter().enumerate() {
                read(item, &format!("{at}/{index}"), found);
            }
        }
        Err(_) => read(list, at, found),
    }
}

/// A message of a prompt.
fn message(message: &RawValue, at: &str, found: &mut Vec<String>) {
    let content = Object::parse(message).ok().and_then(|members| members.find("content"));
    if let Some(content) = content {
        each(content, &format!("{at}/content"), block, found);
    }
}

/// A block of content.
fn block(content: &RawValue, at: &str, found: &mut Vec<String>) {
    let Ok(members) = Object::parse(content) else { return };
    // Escapes must not hide the type.
    let kind =
        members.find("type").and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
    if matches!(kind.as_deref(), Some("image" | "audio")) && members.find("data").is_some() {
        found.push(format!("{at}/data"));
    }
    if let Some(embedded) = members.find("resource") {
        resource(embedded, &format!("{at}/resource"), found);
    }
}

/// The contents of a resource.
fn resource(contents: &RawValue, at: &str, found: &mut Vec<String>) {
    let has_blob = Object::parse(contents).is_ok_and(|members| members.find("blob").is_some());
    if has_blob {
        found.push(format!("{at}/blob"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escaped_type_is_binary() {
        let result = r#"{"content":[{"type":"imag\u0065","data":"AAAA"}]}"#;
        assert_eq!(pointers(result), ["/content/0/data"]);
    }

    #[test]
    fn files_of_agents_are_found() {
        let said = || json!({ "parts": [{ "text": "a" }, { "raw": "AAAA" }] });
        let task = json!({ "status": { "message": said() }, "artifacts": [said()] });
        for (answer, expected) in [
            (json!({ "message": said() }), vec!["/message/parts/1/raw"]),
            (task.clone(), vec!["/status/message/parts/1/raw", "/artifacts/0/parts/1/raw"]),
            (
                json!({ "task": task }),
                vec!["/task/status/message/parts/1/raw", "/task/artifacts/0/parts/1/raw"],
            ),
            (
                json!({ "artifactUpdate": { "artifact": said() } }),
                vec!["/artifactUpdate/artifact/parts/1/raw"],
            ),
            (json!({ "message": { "parts": [{ "data": { "raw": "text" } }] } }), vec![]),
            (json!({ "content": [{ "type": "image", "data": "c" }] }), vec![]),
        ] {
            assert_eq!(pointers_of_agent(&answer.to_string()), expected, "{answer}");
        }
    }

    #[test]
    fn binary_members_of_the_protocol_are_found() {
        for (result, expected) in [
            (
                json!({ "content": [
                    { "type": "text", "text": "a", "data": "b" }, { "type": "image", "data": "c" },
                    { "type": "resource", "resource": { "uri": "a:b", "blob": "c" } },
                ] }),
                vec!["/content/1/data", "/content/2/resource/blob"],
            ),
            (
                json!({ "contents": [{ "uri": "a:b", "text": "c" }, { "uri": "a:b", "blob": "" }] }),
                vec!["/contents/1/blob"],
            ),
            (
                json!({ "messages": [{ "content": { "type": "audio", "data": "c" } }] }),
                vec!["/messages/0/content/data"],
            ),
            (
                json!({ "result": { "content": [{ "type": "image", "data": "c" }] } }),
                vec!["/result/content/0/data"],
            ),
            (
                json!({ "inputRequests": { "a/b": { "params": { "messages": [
                    { "content": { "type": "image", "data": "c" } },
                ] } } } }),
                vec!["/inputRequests/a~1b/params/messages/0/content/data"],
            ),
            (json!({ "structuredContent": { "type": "image", "data": "c", "blob": "d" } }), vec![]),
            (json!([]), vec![]),
        ] {
            assert_eq!(pointers(&result.to_string()), expected, "{result}");
        }
    }
}
