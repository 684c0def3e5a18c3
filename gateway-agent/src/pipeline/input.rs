//! Input that a tool needs in the middle of a call (basic/patterns/mrtr).

use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::{Param, RawResult, ResultType},
};
use gateway_upstream::{Context, Side};
use serde_json::value::RawValue;

use super::Error;

/// How often one request may ask before its caller is spared more.
const ROUNDS: usize = 16;

/// Asks all that a result asks for, and puts the answers into the parameters of the next round.
pub(super) async fn ask(
    side: &Side,
    result: &RawResult,
    (params, rounds): (&mut Vec<Param>, usize),
) -> Result<(), Error> {
    if rounds >= ROUNDS {
        return Err(Error::EndlessInput { rounds });
    }
    let unanswered = || {
        side.refusal()
            .map_or(Error::NothingWaits, |why| gateway_upstream::Error::Exhausted(why).into())
    };
    let answers = answered(side, &result.result).await.ok_or_else(unanswered)?;
    params.retain(|param| !matches!(&*param.name, "inputResponses" | "requestState"));
    params.extend(answers);
    Ok(())
}

/// Asks everything that a result asks for, and gives the parameters with the answers; `None` where
/// there are none.
async fn answered(side: &Side, result: &RawValue) -> Option<Vec<Param>> {
    let members = Object::parse(result).ok()?;
    let asked = members.find("inputRequests").and_then(|raw| Object::parse(raw).ok());
    let mut responses = ObjectWriter::with_capacity(256);
    for request in asked.unwrap_or_default().members() {
        let question = Object::parse(request.value).ok()?;
        let method: String = serde_json::from_str(question.find("method")?.get()).ok()?;
        let answer = side.ask(&method, question.find("params")).await.ok()?;
        let answer = match answer {
            Ok(answer) => answer.get().to_owned(),
            // Who cannot answer an elicitation has declined it; the rest has no such answer.
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

/// The questions of upstreams and the client capability that each needs.
pub(crate) const QUESTIONS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// Rejects questions that the client did not declare it can answer.
pub(super) fn check(result: &RawResult, context: &Context) -> Result<(), Error> {
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
            Some((_, capability)) if !context.capabilities.can(capability) => {
                return Err(Error::Incapable { capability });
            }
            Some(_) => {}
            None => {
                return Err(
                    gateway_upstream::Error::from(gateway_upstream::Breach::ResultType).into()
                );
            }
        }
    }
    Ok(())
}
