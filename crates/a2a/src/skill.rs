//! Skills: selection by message, media types, and the data of messages.

use std::borrow::Cow;

use registry_core::{
    entity::agent::{Agent, Skill},
    media_type::essence,
};
use serde_json::{Value, json};

use crate::{
    error::{ErrorKind, Failure},
    json::Object,
    model::{Content, Message, Part},
    request::Request,
};

/// Data of a message or an artifact, with its JSON pointer.
#[derive(Debug, Clone, PartialEq)]
pub struct DataPart<'a> {
    /// The pointer of the data, for instance `/message/parts/0/data`.
    pub pointer: String,
    /// The data.
    pub data: &'a Value,
}

/// The skill that a request addresses.
///
/// The skill id in the metadata decides, then the agent's only skill, then the only skill with an
/// input schema that matches all data of the message. `matches` validates data against the input
/// schema. `Ok(None)`: the agent has to decide. An unknown skill id is an error.
pub fn select<'a>(
    agent: &'a Agent,
    request: &Request,
    matches: impl Fn(&Skill, &Value) -> bool,
) -> Result<Option<&'a Skill>, Failure> {
    if let Some(id) = request.skill_id() {
        return agent.skill(id).map(Some).ok_or_else(|| {
            let shown: String = id.chars().take(128).collect();
            let problem = format!("the agent has no skill {shown:?}");
            Failure::invalid_params("/message/metadata/skillId", problem)
                .with_reason("SKILL_NOT_FOUND")
        });
    }
    if let [only] = agent.skills.as_slice() {
        return Ok(Some(only));
    }
    let Some(message) = request.message() else { return Ok(None) };
    let data = data_parts(message, "/message");
    if data.is_empty() {
        return Ok(None);
    }
    let fits = |skill: &&Skill| {
        skill.input_schema.is_some() && data.iter().all(|part| matches(skill, part.data))
    };
    let mut fitting = agent.skills.iter().filter(fits);
    let first = fitting.next();
    Ok(if fitting.next().is_some() { None } else { first })
}

/// The data parts of a message or an artifact at this pointer.
pub fn data_parts<'a>(message: Message<'a>, at: &str) -> Vec<DataPart<'a>> {
    let parts = crate::json::items(message.0, "parts").iter().enumerate();
    let data = parts.filter_map(|(i, part)| {
        let data = part.get("data")?;
        Some(DataPart { pointer: format!("{at}/parts/{i}/data"), data })
    });
    data.collect()
}

/// The arguments that a message with this data has for a tool: its only data, or its text if it has
/// no data. `None`: several data, or one that is no object.
pub fn arguments<'a>(message: Message<'_>, data: &[DataPart<'a>]) -> Option<Cow<'a, Value>> {
    match data {
        [] => Some(Cow::Owned(json!({ "text": message.text() }))),
        [only] if only.data.is_object() => Some(Cow::Borrowed(only.data)),
        _ => None,
    }
}

/// The data parts of a task's artifacts, with pointers into the task.
pub fn artifact_data(task: &Object) -> Vec<DataPart<'_>> {
    let artifacts = crate::json::items(task, "artifacts").iter().enumerate();
    let data = artifacts.filter_map(|(i, artifact)| {
        Some(data_parts(Message::of(artifact)?, &format!("/artifacts/{i}")))
    });
    data.flatten().collect()
}

/// Fails with `ContentTypeNotSupported` if the skill does not accept the media type of a part.
/// Without a skill, every type that the agent or a skill accepts is allowed.
pub fn check_input_modes(
    agent: &Agent,
    skill: Option<&Skill>,
    message: Message<'_>,
) -> Result<(), Failure> {
    let accepted = modes(agent, skill, |s| &s.input_modes, &agent.default_input_modes);
    let is_accepted = |part: &Part<'_>| {
        // An input schema declares data.
        let is_data = matches!(part.content(), Some(Content::Data(_)));
        let has_schema = skill.is_some_and(|skill| skill.input_schema.is_some());
        is_data && has_schema || accepts(&accepted, part.media_type())
    };
    let Some((i, part)) = message.parts().enumerate().find(|(_, part)| !is_accepted(part)) else {
        return Ok(());
    };
    let shown: String = part.media_type().chars().take(128).collect();
    let message =
        format!("media type {shown:?} is not accepted; use one of {}", accepted.join(", "));
    Err(Failure::new(ErrorKind::ContentTypeNotSupported, message)
        .with_metadata("pointer", format!("/message/parts/{i}"))
        .with_metadata("mediaType", shown))
}

/// Fails with `ContentTypeNotSupported` if the skill produces no media type that the client
/// accepts.
pub fn check_output_modes(
    agent: &Agent,
    skill: Option<&Skill>,
    request: &Request,
) -> Result<(), Failure> {
    let wanted = request.accepted_output_modes();
    if wanted.is_empty() {
        return Ok(());
    }
    let produced = modes(agent, skill, |s| &s.output_modes, &agent.default_output_modes);
    let fits = |mode: &&str| accepts(&wanted, mode) || wanted.iter().any(|w| accepts(&[mode], w));
    if produced.is_empty() || produced.iter().any(fits) {
        return Ok(());
    }
    let message = format!(
        "the agent produces none of the accepted output modes; it produces {}",
        produced.join(", ")
    );
    Err(Failure::new(ErrorKind::ContentTypeNotSupported, message)
        .with_metadata("pointer", "/configuration/acceptedOutputModes"))
}

fn modes<'a>(
    agent: &'a Agent,
    skill: Option<&'a Skill>,
    own: impl Fn(&'a Skill) -> &'a Vec<String>,
    default: &'a [String],
) -> Vec<&'a str> {
    let of_skill = |skill| Some(own(skill)).filter(|modes| !modes.is_empty());
    let Some(skill) = skill else {
        let modes = agent.skills.iter().filter_map(of_skill).flatten().chain(default);
        return modes.map(String::as_str).collect();
    };
    of_skill(skill).map_or(default, Vec::as_slice).iter().map(String::as_str).collect()
}

/// Whether a list of media types with wildcards has this one. An empty list has all.
fn accepts(modes: &[&str], media_type: &str) -> bool {
    let wanted = essence(media_type);
    let kind = wanted.split('/').next().unwrap_or_default();
    modes.is_empty()
        || modes.iter().any(|mode| {
            let mode = essence(mode);
            // Cards before 0.3 have `text` for any text.
            let of_kind = mode.strip_suffix("/*").unwrap_or(mode);
            mode.eq_ignore_ascii_case(wanted)
                || mode == "*/*"
                || mode == "*"
                || of_kind.eq_ignore_ascii_case(kind)
        })
}

#[cfg(test)]
mod tests;
