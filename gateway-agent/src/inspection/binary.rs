//! The places of images, audio and other binary content in results of MCP, and of files in answers
//! of A2A.
//!
//! Receivers read repeated members differently, so all of them are read here.

use std::{borrow::Cow, collections::HashSet};

use schema_compat::pointer::pointer_join;
use serde_json::value::RawValue;

use super::members::{each_item, each_member};

/// The binary content of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BinaryContent {
    /// The pointer of the first one.
    pub(super) first: Option<String>,
    /// The wanted pointers that are base64 texts of binary content.
    pub(super) wanted: HashSet<String>,
}

/// Finds the binary content of a document. Of the pointers, only the wanted ones are kept: a document
/// can have hundreds of thousands.
pub(super) type Find = fn(&str, &HashSet<&str>) -> BinaryContent;

/// Finds the binary content of a result of MCP.
pub(super) fn of_result(json: &str, wanted: &HashSet<&str>) -> BinaryContent {
    search(json, wanted, result)
}

/// Finds the files in an answer or event of A2A.
pub(super) fn of_answer(json: &str, wanted: &HashSet<&str>) -> BinaryContent {
    search(json, wanted, agent_answer)
}

fn search(json: &str, wanted: &HashSet<&str>, read: Read) -> BinaryContent {
    let mut search = Search { wanted, found: BinaryContent::default() };
    if let Ok(document) = serde_json::from_str::<&RawValue>(json) {
        read(document, "", &mut search);
    }
    search.found
}

struct Search<'w> {
    wanted: &'w HashSet<&'w str>,
    found: BinaryContent,
}

/// Reads a value at a pointer.
type Read = fn(&RawValue, &str, &mut Search<'_>);

impl Search<'_> {
    fn add(&mut self, pointer: String) {
        if self.wanted.contains(&*pointer) {
            self.found.wanted.insert(pointer.clone());
        }
        self.found.first.get_or_insert(pointer);
    }

    /// The values of the members with these names. An object that cannot be read can have binary
    /// content.
    fn members<'a, const N: usize>(
        &mut self,
        of: &'a RawValue,
        at: &str,
        names: [&str; N],
    ) -> [Vec<&'a RawValue>; N] {
        let mut found: [Vec<&'a RawValue>; N] = std::array::from_fn(|_| Vec::new());
        let read = each_member(of, |name, value| {
            if let Some(position) = names.iter().position(|known| *known == name) {
                found[position].push(value);
            }
        });
        if read.is_err() {
            self.add(at.to_owned());
        }
        found
    }

    /// Reads the items of arrays, or the values themselves.
    fn each(&mut self, values: &[&RawValue], at: &str, read: Read) {
        for value in values {
            if value.get().starts_with('[') {
                each_item(value, |index, item| read(item, &format!("{at}/{index}"), self));
            } else {
                read(value, at, self);
            }
        }
    }
}

fn agent_answer(answer: &RawValue, at: &str, search: &mut Search<'_>) {
    // The answer is a task itself, or has one member with its content.
    agent_task(answer, at, search);
    let names = ["task", "message", "statusUpdate", "artifactUpdate"];
    let [tasks, messages, statuses, artifacts] = search.members(answer, at, names);
    search.each(&tasks, "/task", agent_task);
    search.each(&messages, "/message", parts);
    search.each(&statuses, "/statusUpdate", agent_status);
    search.each(&artifacts, "/artifactUpdate", agent_artifact);
}

fn agent_task(task: &RawValue, at: &str, search: &mut Search<'_>) {
    agent_status(task, at, search);
    let [artifacts, history] = search.members(task, at, ["artifacts", "history"]);
    search.each(&artifacts, &format!("{at}/artifacts"), parts);
    search.each(&history, &format!("{at}/history"), parts);
}

fn agent_status(of: &RawValue, at: &str, search: &mut Search<'_>) {
    let [statuses] = search.members(of, at, ["status"]);
    for status in statuses {
        let at = format!("{at}/status");
        let [said] = search.members(status, &at, ["message"]);
        search.each(&said, &format!("{at}/message"), parts);
    }
}

fn agent_artifact(update: &RawValue, at: &str, search: &mut Search<'_>) {
    let [artifacts] = search.members(update, at, ["artifact"]);
    search.each(&artifacts, &format!("{at}/artifact"), parts);
}

/// The parts of a message or an artifact.
fn parts(of: &RawValue, at: &str, search: &mut Search<'_>) {
    let [parts] = search.members(of, at, ["parts"]);
    search.each(&parts, &format!("{at}/parts"), part);
}

fn part(part: &RawValue, at: &str, search: &mut Search<'_>) {
    let [raw] = search.members(part, at, ["raw"]);
    if !raw.is_empty() {
        search.add(format!("{at}/raw"));
    }
}

/// A result, or the result of a task in it.
fn result(value: &RawValue, at: &str, search: &mut Search<'_>) {
    let names = ["content", "contents", "messages", "result", "inputRequests"];
    let [content, contents, messages, results, requests] = search.members(value, at, names);
    search.each(&content, &format!("{at}/content"), block);
    search.each(&contents, &format!("{at}/contents"), resource);
    search.each(&messages, &format!("{at}/messages"), message);
    if at.is_empty() {
        for of_task in results {
            result(of_task, "/result", search);
        }
    }
    let at = format!("{at}/inputRequests");
    for requests in requests {
        let read = each_member(requests, |name, request| {
            question(request, &pointer_join(&at, name), search);
        });
        if read.is_err() {
            search.add(at.clone());
        }
    }
}

/// A question of a server.
fn question(request: &RawValue, at: &str, search: &mut Search<'_>) {
    let [all] = search.members(request, at, ["params"]);
    for params in all {
        let at = format!("{at}/params");
        let [messages] = search.members(params, &at, ["messages"]);
        search.each(&messages, &format!("{at}/messages"), message);
    }
}

/// A message of a prompt.
fn message(message: &RawValue, at: &str, search: &mut Search<'_>) {
    let [content] = search.members(message, at, ["content"]);
    search.each(&content, &format!("{at}/content"), block);
}

/// A block of content.
fn block(content: &RawValue, at: &str, search: &mut Search<'_>) {
    let [kinds, data, embedded] = search.members(content, at, ["type", "data", "resource"]);
    let is_binary = |kind: &&RawValue| {
        // Escapes must not hide the type.
        let kind = serde_json::from_str::<Cow<'_, str>>(kind.get());
        matches!(kind.as_deref(), Ok("image" | "audio"))
    };
    if !data.is_empty() && kinds.iter().any(is_binary) {
        search.add(format!("{at}/data"));
    }
    for embedded in embedded {
        resource(embedded, &format!("{at}/resource"), search);
    }
}

/// The contents of a resource.
fn resource(contents: &RawValue, at: &str, search: &mut Search<'_>) {
    let [blobs] = search.members(contents, at, ["blob"]);
    if !blobs.is_empty() {
        search.add(format!("{at}/blob"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The wanted pointers of binary content, and the first one.
    fn found(find: Find, json: &str, wanted: &[&str]) -> (Vec<String>, Option<String>) {
        let BinaryContent { first, wanted } = find(json, &wanted.iter().copied().collect());
        let mut wanted: Vec<_> = wanted.into_iter().collect();
        wanted.sort_unstable();
        (wanted, first)
    }

    fn check(find: Find, document: &Value, expected: &[&str]) {
        let wanted = [expected, &["/other"][..]].concat();
        let (mut sorted, first) = (expected.to_vec(), expected.first().map(|at| (*at).to_owned()));
        sorted.sort_unstable();
        let sorted: Vec<_> = sorted.into_iter().map(str::to_owned).collect();
        assert_eq!(found(find, &document.to_string(), &wanted), (sorted, first), "{document}");
    }

    #[test]
    fn escaped_type_is_binary() {
        let result = r#"{"content":[{"type":"imag\u0065","data":"AAAA"}]}"#;
        assert_eq!(found(of_result, result, &[]).1.unwrap(), "/content/0/data");
    }

    #[test]
    fn repeated_members_do_not_hide_binary_content() {
        let image = r#"{"type":"image","data":"AAAA"}"#;
        for (result, pointer) in [
            (format!(r#"{{"content":[],"content":[{image}]}}"#), "/content/0/data"),
            (format!(r#"{{"content":[{image}],"content":[]}}"#), "/content/0/data"),
            (
                r#"{"content":[{"type":"text","type":"audio","data":"A"}]}"#.into(),
                "/content/0/data",
            ),
            (
                r#"{"content":[{"resource":{"text":""},"resource":{"blob":"A"}}]}"#.into(),
                "/content/0/resource/blob",
            ),
            (r#"{"content":[{"\ud800":1,"type":"image","data":"A"}]}"#.into(), "/content/0"),
        ] {
            assert_eq!(found(of_result, &result, &[]).1.as_deref(), Some(pointer), "{result}");
        }
    }

    #[test]
    fn only_wanted_pointers_are_kept() {
        let images = vec![json!({ "type": "image", "data": "" }); 1_000];
        let result = json!({ "content": images }).to_string();
        let (kept, first) = found(of_result, &result, &["/content/7/data", "/content/8/text"]);
        assert_eq!(kept, ["/content/7/data"]);
        assert_eq!(first.as_deref(), Some("/content/0/data"));
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
            check(of_answer, &answer, &expected);
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
            check(of_result, &result, &expected);
        }
    }
}
