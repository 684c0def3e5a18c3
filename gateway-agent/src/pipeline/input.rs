//! Input that a tool requests during a call (MCP multi-round-trip requests).

use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::{Param, RawResult, ResultType},
};
use gateway_upstream::{ClientChannel, RequestContext};
use serde_json::value::RawValue;

use super::Error;

/// Maximum rounds of input in one request.
const ROUNDS: usize = 16;

/// Sends all questions of a result to the client, and stores the answers in the parameters of the
/// next round.
pub(super) async fn ask(
    side: &ClientChannel,
    result: &RawResult,
    (params, rounds): (&mut Vec<Param>, usize),
) -> Result<(), Error> {
    if rounds >= ROUNDS {
        return Err(Error::TooManyInputRounds { rounds });
    }
    let unanswered = || {
        side.exceeded_quota()
            .map_or(Error::UnknownInput, |why| gateway_upstream::Error::QuotaExceeded(why).into())
    };
    let answers = answered(side, &result.result).await.ok_or_else(unanswered)?;
    params.retain(|param| !matches!(&*param.name, "inputResponses" | "requestState"));
    params.extend(answers);
    Ok(())
}

/// Sends all questions of a result. Returns the parameters with the answers, or `None` if a
/// question stays unanswered.
async fn answered(side: &ClientChannel, result: &RawValue) -> Option<Vec<Param>> {
    let members = Object::parse(result).ok()?;
    let asked = members.find("inputRequests").and_then(|raw| Object::parse(raw).ok());
    let mut responses = ObjectWriter::with_capacity(256);
    for request in asked.unwrap_or_default().members() {
        let question = Object::parse(request.value).ok()?;
        let method: String = serde_json::from_str(question.find("method")?.get()).ok()?;
        let answer = side.ask(&method, question.find("params")).await?;
        let answer = match answer {
            Ok(answer) => answer.get().to_owned(),
            // A client without elicitation declines; sampling and roots have no such answer.
            Err(_) if method == "elicitation/create" => r#"{"action":"cancel"}"#.to_owned(),
            Err(_) => return None,
        };
        responses.member(&request.name, &answer);
    }
    let mut params = vec![param("inputResponses", responses.finish_string())?];
    if let Some(state) = members.find("requestState") {
        params.push(Param { name: "requestState".into(), value: state.to_owned() });
    }
    Some(params)
}

fn param(name: &str, value: String) -> Option<Param> {
    Some(Param { name: name.into(), value: RawValue::from_string(value).ok()? })
}

/// The questions of upstreams, and the client capability that each requires.
pub(crate) const QUESTIONS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// Whether the client declared that it answers questions.
pub(crate) fn answers_questions(context: &RequestContext) -> bool {
    context.capabilities.has_any(QUESTIONS.map(|(_, capability)| capability))
}

/// Rejects questions that require a capability the client did not declare.
pub(super) fn check(result: &RawResult, context: &RequestContext) -> Result<(), Error> {
    if result.result_type != ResultType::InputRequired {
        return Ok(());
    }
    let members = Object::parse(&result.result).unwrap_or_default();
    let asked = members.find("inputRequests").and_then(|raw| Object::parse(raw).ok());
    for request in asked.unwrap_or_default().members() {
        let method = Object::parse(request.value)
            .ok()
            .and_then(|members| serde_json::from_str::<String>(members.find("method")?.get()).ok());
        let needed = QUESTIONS.iter().find(|(known, _)| Some(*known) == method.as_deref());
        match needed {
            Some((_, capability)) if !context.capabilities.has(capability) => {
                return Err(Error::MissingCapability { capability });
            }
            Some(_) => {}
            None => {
                return Err(gateway_upstream::Error::from(
                    gateway_upstream::ProtocolViolation::ResultType,
                )
                .into());
            }
        }
    }
    Ok(())
}
