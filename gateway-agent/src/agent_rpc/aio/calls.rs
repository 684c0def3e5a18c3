//! Calls of tools, resources and prompts.

use a2a::ErrorKind;
use agent_rpc::{Failure, Reason, help::AgentType, media::Media};
use gateway_policy::Denial;
use gateway_protocol::{
    content,
    jsonrpc::Object,
    mcp::{Method, Param},
};
use gateway_upstream::Error as UpstreamError;
use registry_core::entity::Exposure;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{Invoked, Rejection, Serving, values};
use crate::{
    agent_rpc::failure,
    pipeline::{self, Error, FeatureSubject, Output, Target, ToolCall},
    view::ServedTool,
};

impl Serving<'_> {
    pub(super) async fn call_tool(
        &mut self,
        tool: &str,
        args: Option<&RawValue>,
    ) -> Result<String, Rejection> {
        let Some(served) = self.agent.tool(tool) else { return Err(self.unknown_function(tool)) };
        let arguments = args.map(ToOwned::to_owned);
        Box::pin(self.tool_result(&served, arguments, "/args", values::of_tool)).await
    }

    /// `agent::name`: a skill, or a tool of an agent that is not `mcp`.
    pub(super) async fn call_named(
        &mut self,
        name: &str,
        args: Option<&RawValue>,
    ) -> Result<String, Rejection> {
        if let Some((_, takes_text)) = self.agent.skill(name) {
            return Box::pin(self.call_skill(name, args, takes_text)).await;
        }
        if self.agent.kind() == AgentType::Mcp {
            return Err(self.unknown_function(name));
        }
        let Some(served) = self.agent.tool(name) else { return Err(self.unknown_function(name)) };
        let arguments = args.map(ToOwned::to_owned);
        Box::pin(self.tool_result(&served, arguments, "", values::of_tool)).await
    }

    /// `agent::input`: the skill that accepts the value, or the only tool.
    pub(super) async fn input(&mut self, input: &Media) -> Result<String, Rejection> {
        let agent = self.agent;
        if let Some(skill) = agent.skill_for(input.modality()) {
            return Box::pin(self.send_input(&skill.id, input)).await;
        }
        let served = match agent.functions() {
            [] => return Err(self.unknown_method("input").into()),
            [only] => only,
            [_, _, ..] => {
                let problem = "the agent has several functions; call one by its name, as \
                               agent::function";
                return Err(Failure::invalid_params("/input", problem).into());
            }
        };
        let Media::Json(arguments @ Value::Object(_)) = input else {
            let problem = "the agent takes objects: send {\"type\": \"file\", \"value\": {…}}";
            return Err(Failure::invalid_params("/input", problem).into());
        };
        // JSON values always serialize.
        let arguments = to_raw_value(arguments).ok();
        Box::pin(self.tool_result(served, arguments, "/input/value", values::of_tool)).await
    }

    /// Calls a tool, and converts its result. `pointer` is that of its arguments in the parameters.
    pub(super) async fn tool_result<T>(
        &mut self,
        served: &ServedTool,
        arguments: Option<Box<RawValue>>,
        pointer: &str,
        convert: impl FnOnce(&Object<'_>) -> T,
    ) -> Result<T, Rejection> {
        let name = served.listed_name().as_str();
        let call = ToolCall::new(name, arguments);
        let invoked = Invoked { target: Target::Tool(call), params: Vec::new(), name };
        let output = Box::pin(self.invoke(invoked)).await;
        self.result(output, (name, pointer), convert)
    }

    /// `resources.get`.
    pub(super) async fn get_resource(&mut self, uri: &str) -> Result<String, Rejection> {
        let agent = self.agent;
        let server = agent.server.as_ref().filter(|server| server.exposes(Exposure::Resources));
        let Some(server) = server else {
            return Err(self.unknown_feature("resources.get", "/id", uri));
        };
        let interfaces = agent.snapshot.definitions.interfaces();
        let Some(known) = interfaces.known(&server.prefix, uri) else {
            return Err(self.unknown_feature("resources.get", "/id", uri));
        };
        let subject = FeatureSubject::Resource((&*known).into());
        let params = Vec::new();
        Box::pin(self.feature(Method::ReadResource, subject, params, values::of_resource)).await
    }

    /// `prompts.get`.
    pub(super) async fn get_prompt(
        &mut self,
        name: &str,
        args: Option<&RawValue>,
    ) -> Result<String, Rejection> {
        let server = self.agent.server.as_ref();
        let Some(server) = server.filter(|server| server.exposes(Exposure::Prompts)) else {
            return Err(self.unknown_feature("prompts.get", "/name", name));
        };
        let known = server.prefix.prompt(name);
        let value = args.map(ToOwned::to_owned);
        let params = value.map(|value| Param { name: "arguments".into(), value });
        let subject = FeatureSubject::Prompt(known.into());
        let params = params.into_iter().collect();
        Box::pin(self.feature(Method::GetPrompt, subject, params, values::of_prompt)).await
    }

    async fn feature(
        &mut self,
        method: Method,
        subject: FeatureSubject,
        params: Vec<Param>,
        convert: impl FnOnce(&Object<'_>) -> String,
    ) -> Result<String, Rejection> {
        let pointer = if method == Method::GetPrompt { "/name" } else { "/id" };
        let (known, audited) = (subject.known().to_owned(), subject.audited().into_owned());
        let target = Target::Feature { method, subject };
        let output = Box::pin(self.invoke(Invoked { target, params, name: &audited })).await;
        if matches!(&output, Err(Error::Denied(denial)) if !matches!(denial, Denial::Stale(_))) {
            return Err(Failure::invalid_params(pointer, UNKNOWN).into());
        }
        self.result(output, (&known, pointer), convert)
    }

    /// Converts the result, unless it reports a failure or asks for input.
    fn result<T>(
        &self,
        output: Result<Output, Error>,
        (name, pointer): (&str, &str),
        convert: impl FnOnce(&Object<'_>) -> T,
    ) -> Result<T, Rejection> {
        let outcome = output.and_then(Output::into_result);
        let outcome = outcome.map_err(|error| self.failed(name, error, pointer))?;
        // Names stay those of the server: the agent selects it, so callers need no prefix.
        let result = outcome.result;
        self.reserve(content::tree_bytes(result.result.get()))?;
        let members = Object::parse(&result.result).unwrap_or_default();
        match failure::of_result(&result, &members, self.event) {
            Some(failure) => Err(failure.into()),
            None => Ok(convert(&members)),
        }
    }

    /// The error of an operation. `pointer` is that of its input in the parameters.
    pub(super) fn failed(&self, name: &str, error: Error, pointer: &str) -> Rejection {
        let error = match error {
            Error::Scopes(refusal) => return refusal.into(),
            error => error,
        };
        if let Error::Agent(failure) | Error::Upstream(UpstreamError::Agent(failure)) = &error {
            return match failure.kind {
                ErrorKind::InvalidParams | ErrorKind::ContentTypeNotSupported => {
                    Failure::invalid_params(pointer, &failure.message).into()
                }
                _ => Failure::new(Reason::ToolError, failure.message.clone()).into(),
            };
        }
        let failure = failure::of_tool(name, &error, pointer);
        // A name that the caller may not use has the error of an unknown one.
        if failure.is(Reason::FunctionNotFound) {
            self.without_function(name).into()
        } else {
            failure.into()
        }
    }

    fn without_function(&self, name: &str) -> Failure {
        let agent = self.agent.name.as_str();
        if !self.agent.is_known() {
            return Failure::agent_not_found(agent);
        }
        Failure::function_not_found(agent, name).with_methods(self.available_methods())
    }

    fn unknown_function(&mut self, name: &str) -> Rejection {
        // As over MCP, a caller without the scopes of calls learns nothing about names.
        if let Err(error) = pipeline::check_call_scopes(self.gateway, self.caller, name) {
            return error.into();
        }
        let failure = self.without_function(name);
        self.unknown_name(name, failure)
    }

    /// The error of a resource or prompt that the agent does not have. An agent without any has no
    /// such method.
    fn unknown_feature(&mut self, method: &str, pointer: &str, name: &str) -> Rejection {
        let modules = self.agent.modules();
        let has_module =
            if method.starts_with("prompts") { modules.prompts } else { modules.resources };
        let failure = if has_module {
            Failure::invalid_params(pointer, UNKNOWN)
        } else {
            self.without_method(method)
        };
        let audited = FeatureSubject::Resource(name.into()).audited().into_owned();
        self.unknown_name(if pointer == "/id" { &audited } else { name }, failure)
    }
}

/// The problem of a name of a prompt or a resource.
const UNKNOWN: &str = "the agent has none with this name; see its list";
