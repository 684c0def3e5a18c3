//! `sampling.start` and `sampling.step`: a conversation with a skill of an agent of A2A, or calls of a
//! tool that is marked with `metadata.sampling`.
//!
//! A marked tool receives `input`, a content block of MCP, and `session` of its last result. The
//! session is done unless the structured result has `done: false`.

use agent_rpc::{Failure, Reason, media::Media};
use gateway_protocol::{
    content,
    jsonrpc::{Object, read_string},
};
use serde_json::{Value, json, value::to_raw_value};

use super::{
    Rejection, Serving,
    sessions::{NoSession, RunningStep, SessionState},
    skills::{Conversation, Sent, SkillAnswer},
    values,
};
use crate::pipeline::TaskOwner;

/// Maximum bytes of the session that a tool names.
const TOOL_SESSION_BYTES: usize = 4_096;

/// The answer of one step.
struct Turn {
    /// The error of a task that ended without a result, else the values.
    outputs: Result<Vec<Value>, Failure>,
    done: bool,
    /// The state for the next step.
    next: SessionState,
}

impl Serving<'_> {
    pub(super) async fn start_sampling(&mut self, input: &Media) -> Result<String, Rejection> {
        let agent = self.agent;
        let turn = if let Some(skill) = agent.skill_for(input.modality()) {
            let sent = self.send(Sent::of_input(&skill.id, input), Conversation::default());
            turn_of_skill(&skill.id, Box::pin(sent).await?)
        } else if let Some(tool) = agent.sampling_tool() {
            let name = tool.listed_name().as_str();
            Box::pin(self.call_sampling_tool(name, None, input)).await?
        } else {
            return Err(self.unknown_method("sampling.start").into());
        };
        let Turn { outputs, done, next } = turn;
        let outputs = outputs?;
        let session = self.sessions.add((self.owner(), &self.caller.payer), agent.name, next);
        Ok(answer(&session, &outputs, done))
    }

    pub(super) async fn step_sampling(
        &mut self,
        session: &str,
        input: Option<&Media>,
    ) -> Result<String, Rejection> {
        let agent = self.agent;
        if !agent.modules().sampling {
            return Err(self.unknown_method("sampling.step").into());
        }
        let begun = self.sessions.begin_step(self.owner(), agent.name, session);
        let mut step = begun.map_err(|problem| {
            let problem = match problem {
                NoSession::Unknown => "the session is unknown or has expired; start another one",
                NoSession::Busy => "another step of the session is running; wait for its answer",
            };
            Failure::invalid_params("/session", problem)
        })?;
        let Turn { outputs, done, next } = Box::pin(self.turn(&step, input)).await?;
        step.state = next;
        Ok(answer(session, &outputs?, done))
    }

    /// The owner of the caller's sessions.
    fn owner(&self) -> Option<TaskOwner> {
        TaskOwner::of(self.gateway, &self.caller.claim)
    }

    async fn turn(
        &mut self,
        step: &RunningStep<'_>,
        input: Option<&Media>,
    ) -> Result<Turn, Rejection> {
        match (&step.state, input) {
            (SessionState::Skill { skill, conversation }, Some(input)) => {
                let sent = self.send(Sent::of_input(skill, input), conversation.clone());
                Ok(turn_of_skill(skill, Box::pin(sent).await?))
            }
            (
                SessionState::Skill { skill, conversation: Conversation { task: Some(task), .. } },
                None,
            ) => Ok(turn_of_skill(skill, Box::pin(self.poll(task)).await?)),
            (SessionState::Tool { tool, session }, Some(input)) => {
                Box::pin(self.call_sampling_tool(tool, session.as_deref(), input)).await
            }
            (SessionState::Skill { .. } | SessionState::Tool { .. }, None) => {
                let problem =
                    "the session waits for input; an absent input continues a running task";
                Err(Failure::invalid_params("/input", problem).into())
            }
        }
    }

    async fn call_sampling_tool(
        &mut self,
        tool: &str,
        session: Option<&str>,
        input: &Media,
    ) -> Result<Turn, Rejection> {
        let Some(served) = self.agent.tool(tool) else {
            return Err(self.unknown_method("sampling.start").into());
        };
        let mut arguments = json!({ "input": input.to_mcp() });
        if let Some(session) = session {
            arguments["session"] = session.into();
        }
        // JSON values always serialize.
        let arguments = to_raw_value(&arguments).ok();
        let read = |members: &Object<'_>| {
            let structured = content::structured(members).and_then(|raw| Object::parse(raw).ok());
            let structured = structured.unwrap_or_default();
            let session = structured.find("session").and_then(read_string).map(String::from);
            let done = structured.find("done").is_none_or(|done| done.get() != "false");
            (values::outputs(members), session, done)
        };
        let result = Box::pin(self.tool_result(&served, arguments, "", read)).await?;
        let (outputs, session, done) = result;
        if session.as_ref().is_some_and(|session| session.len() > TOOL_SESSION_BYTES) {
            let message = format!("the session of the tool exceeds {TOOL_SESSION_BYTES} bytes");
            return Err(Failure::new(Reason::ToolError, message).into());
        }
        let next = SessionState::Tool { tool: tool.to_owned(), session };
        Ok(Turn { outputs: Ok(outputs), done, next })
    }
}

/// The turn of an agent's answer. A message without a task completes it.
fn turn_of_skill(skill: &str, answer: SkillAnswer) -> Turn {
    let failure = answer.failure();
    let SkillAnswer { outputs, conversation, .. } = answer;
    let done = conversation.task.is_none();
    let next = SessionState::Skill { skill: skill.to_owned(), conversation };
    Turn { outputs: failure.map_or(Ok(outputs), Err), done, next }
}

fn answer(session: &str, outputs: &[Value], done: bool) -> String {
    let mut answer = json!({ "session": session, "done": done });
    if !outputs.is_empty() {
        answer["output"] = outputs.into();
    }
    answer.to_string()
}
