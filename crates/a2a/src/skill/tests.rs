//! Selection of skills, media types and data.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use registry_core::{Document, Entity, Kind};
use serde_json::json;

use super::*;
use crate::operation::Operation;

fn agent(skills: Value) -> Agent {
    let document = json!({ "name": "a", "version": "1.0.0", "description": "", "url": "https://a.example",
        "protocolVersion": "1.0", "defaultInputModes": ["text/*"],
        "defaultOutputModes": ["application/json"], "skills": skills, "capabilities": {} });
    let document = Document::parse(Kind::Agent, &document).unwrap();
    match document.entity() {
        Entity::Agent(agent) => (**agent).clone(),
        _ => panic!("not an agent"),
    }
}

fn skill(id: &str, schema: Option<Value>) -> Value {
    let mut skill = json!({ "id": id, "name": id, "description": "", "tags": [] });
    if let Some(schema) = schema {
        skill["inputSchema"] = schema;
    }
    skill
}

fn request(parts: Value, metadata: Value) -> Request {
    let params = json!({ "message": { "messageId": "m", "parts": parts, "metadata": metadata },
        "configuration": { "acceptedOutputModes": ["application/json; charset=utf-8"] } });
    match params {
        Value::Object(params) => Request::new(Operation::SendMessage, params),
        _ => unreachable!(),
    }
}

/// The validator of these tests: data has a member with the skill's id.
fn matches(skill: &Skill, data: &Value) -> bool {
    data.get(&skill.id).is_some()
}

fn selected(agent: &Agent, request: &Request) -> Result<Option<String>, Failure> {
    select(agent, request, matches).map(|skill| skill.map(|skill| skill.id.clone()))
}

#[test]
fn skill_is_named_or_only_or_matching() {
    let schema = || Some(json!({ "type": "object" }));
    let many = agent(json!([skill("a", schema()), skill("b", schema()), skill("c", None)]));
    let named = request(json!([{ "data": { "a": 1 } }]), json!({ "skillId": "c" }));
    assert_eq!(selected(&many, &named), Ok(Some("c".to_owned())));
    let by_data = |data: Value| selected(&many, &request(json!([{ "data": data }]), json!({})));
    assert_eq!(by_data(json!({ "b": 1 })), Ok(Some("b".to_owned())));
    assert_eq!(by_data(json!({ "a": 1, "b": 1 })), Ok(None));
    assert_eq!(by_data(json!({ "c": 1 })), Ok(None), "a skill without schema does not match");
    assert_eq!(selected(&many, &request(json!([{ "text": "x" }]), json!({}))), Ok(None));
    let one = agent(json!([skill("a", None)]));
    assert_eq!(selected(&one, &request(json!([]), json!({}))), Ok(Some("a".to_owned())));
    let unknown = request(json!([]), json!({ "skillId": "x" }));
    let failure = selected(&one, &unknown).unwrap_err();
    assert_eq!(failure.metadata["pointer"], "/message/metadata/skillId");
    let mut by_request = request(json!([]), json!({}));
    by_request.params.insert("metadata".to_owned(), json!({ "skillId": "b" }));
    assert_eq!(selected(&many, &by_request), Ok(Some("b".to_owned())));
}

#[test]
fn input_modes_have_wildcards_and_defaults() {
    let mut own = skill("own", None);
    own["inputModes"] = json!(["image/png"]);
    let agent = agent(json!([own, skill("schema", Some(json!({})))]));
    let check = |skill: &str, part: Value| {
        let request = request(json!([{ "text": "", "mediaType": "image/png" }, part]), json!({}));
        let skill = agent.skill(skill).unwrap();
        let message = request.message().unwrap();
        check_input_modes(&agent, Some(skill), message).map_err(|f| f.metadata["pointer"].clone())
    };
    assert_eq!(check("own", json!({ "raw": "", "mediaType": "IMAGE/png; q=1" })), Ok(()));
    assert_eq!(check("own", json!({ "text": "" })), Err("/message/parts/1".to_owned()));
    assert_eq!(check("schema", json!({ "data": 1 })), Err("/message/parts/0".to_owned()));
    let request = request(json!([{ "text": "" }, { "data": 1 }]), json!({}));
    let message = request.message().unwrap();
    let schema = agent.skill("schema");
    assert_eq!(check_input_modes(&agent, schema, message), Ok(()), "a schema declares data");
    let failure = check_input_modes(&agent, None, message).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::ContentTypeNotSupported);
}

#[test]
fn output_modes_must_intersect() {
    let mut text = skill("text", None);
    text["outputModes"] = json!(["text/plain"]);
    let agent = agent(json!([text, skill("default", None)]));
    let request = request(json!([]), json!({}));
    let check = |skill: &str| check_output_modes(&agent, agent.skill(skill), &request);
    assert_eq!(check("default"), Ok(()));
    assert_eq!(check("text").unwrap_err().kind, ErrorKind::ContentTypeNotSupported);
    let any = Request::new(Operation::SendMessage, Object::new());
    assert_eq!(check_output_modes(&agent, agent.skill("text"), &any), Ok(()));
}

#[test]
fn data_parts_have_pointers() {
    let request = request(json!([{ "text": "" }, { "data": null }, { "data": [1] }]), json!({}));
    let parts = data_parts(request.message().unwrap(), "/message");
    let pointers: Vec<_> = parts.iter().map(|part| part.pointer.as_str()).collect();
    assert_eq!(pointers, ["/message/parts/1/data", "/message/parts/2/data"]);
    let task = json!({ "artifacts": [7, { "parts": [{ "data": 1 }] }] });
    let parts = artifact_data(task.as_object().unwrap());
    assert_eq!(parts[0].pointer, "/artifacts/1/parts/0/data");
}
