//! AIO: `agent::module.method`, and `agent::name` for a tool or a skill.
//!
//! The method is split at the first `::`, then at the first `.`. If the module is not one of AIO, the
//! whole rest is a name, because names of tools have dots.

use std::borrow::Cow;

use registry_core::{Kind, Name};
use serde_json::value::RawValue;

use crate::{
    failure::{Failure, Reason, shown},
    fields::Fields,
    media::Media,
    text::{OPAQUE_CHARACTERS, is_printable},
};

/// Separates the agent.
const AGENT: &str = "::";
/// Maximum characters of names of tools, skills and prompts.
const NAME_CHARACTERS: usize = 256;
/// Maximum characters of a URI.
const URI_CHARACTERS: usize = 2_048;

/// A call of an agent.
#[derive(Debug)]
pub struct Call<'a> {
    /// The agent.
    pub agent: Name,
    /// All parameters as sent.
    pub params: Option<&'a RawValue>,
    /// The operation.
    pub operation: Operation<'a>,
}

/// An operation of an agent.
#[derive(Debug)]
pub enum Operation<'a> {
    /// `help`: describes the agent.
    Help,
    /// `tools.list`.
    ListTools,
    /// `tools.call`.
    CallTool {
        /// The tool.
        tool: Cow<'a, str>,
        /// The arguments: an object.
        args: Option<&'a RawValue>,
    },
    /// `resources.list`.
    ListResources,
    /// `resources.get`.
    GetResource {
        /// The URI, which is the `id` of lists.
        uri: Cow<'a, str>,
    },
    /// `prompts.list`.
    ListPrompts,
    /// `prompts.get`.
    GetPrompt {
        /// The prompt.
        name: Cow<'a, str>,
        /// The arguments: an object.
        args: Option<&'a RawValue>,
    },
    /// `sampling.start`.
    StartSampling {
        /// The input.
        input: Media,
    },
    /// `sampling.step`.
    StepSampling {
        /// The session.
        session: Cow<'a, str>,
        /// The next input.
        input: Option<Media>,
    },
    /// `input`, for agents whose type is not `mcp`.
    Input {
        /// The input.
        input: Media,
    },
    /// A tool or a skill.
    Named {
        /// The name.
        name: String,
        /// The arguments: an object.
        args: Option<&'a RawValue>,
    },
    /// A method of a module that the module does not have. Its answer lists the others.
    Unknown {
        /// The method, such as `tools.delete`.
        method: String,
    },
}

/// A method of AIO after `agent::`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method<'a> {
    Help,
    Input,
    ListTools,
    CallTool,
    ListResources,
    GetResource,
    ListPrompts,
    GetPrompt,
    StartSampling,
    StepSampling,
    Named(&'a str),
    Unknown(&'a str),
}

const METHODS: [(&str, Method<'static>); 10] = [
    ("help", Method::Help),
    ("input", Method::Input),
    ("tools.list", Method::ListTools),
    ("tools.call", Method::CallTool),
    ("resources.list", Method::ListResources),
    ("resources.get", Method::GetResource),
    ("prompts.list", Method::ListPrompts),
    ("prompts.get", Method::GetPrompt),
    ("sampling.start", Method::StartSampling),
    ("sampling.step", Method::StepSampling),
];
const MODULES: [&str; 4] = ["resources", "prompts", "tools", "sampling"];

/// Whether a method has the form of AIO.
pub fn is_address(method: &str) -> bool {
    method.contains(AGENT)
}

impl<'a> Call<'a> {
    /// Reads a method and its parameters.
    pub fn read(method: &str, params: Option<&'a RawValue>) -> Result<Self, Failure> {
        let (agent, method) = split(method)?;
        Ok(Self { agent, params, operation: Operation::read(method, params)? })
    }
}

/// Splits a method into the agent and its method.
fn split(address: &str) -> Result<(Name, Method<'_>), Failure> {
    let invalid = |problem: &dyn std::fmt::Display| {
        let message = format!("`{}` is not agent::method: {problem}", shown(address));
        Failure::new(Reason::InvalidAddress, message)
    };
    let (agent, rest) = address.split_once(AGENT).ok_or_else(|| invalid(&"no `::`"))?;
    let agent = Name::parse(Kind::Agent, agent).map_err(|error| invalid(&error))?;
    if rest.contains(AGENT) {
        return Err(invalid(&"more than one `::`"));
    }
    if !is_printable(rest, NAME_CHARACTERS) {
        let problem = format!("the method has not 1 to {NAME_CHARACTERS} printable characters");
        return Err(invalid(&problem));
    }
    if let Some((_, method)) = METHODS.iter().find(|(name, _)| *name == rest) {
        return Ok((agent, *method));
    }
    match rest.split_once('.') {
        Some((module, _)) if MODULES.contains(&module) => Ok((agent, Method::Unknown(rest))),
        _ => Ok((agent, Method::Named(rest))),
    }
}

impl<'a> Operation<'a> {
    fn read(method: Method<'_>, params: Option<&'a RawValue>) -> Result<Self, Failure> {
        let none = || Fields::params(params, &[]);
        Ok(match method {
            Method::Help => none().map(|_| Self::Help)?,
            Method::ListTools => none().map(|_| Self::ListTools)?,
            Method::ListResources => none().map(|_| Self::ListResources)?,
            Method::ListPrompts => none().map(|_| Self::ListPrompts)?,
            Method::CallTool => {
                let fields = Fields::params(params, &["tool", "args"])?;
                let tool = fields.required_printable("tool", NAME_CHARACTERS)?;
                Self::CallTool { tool, args: fields.object("args")? }
            }
            Method::GetPrompt => {
                let fields = Fields::params(params, &["name", "args"])?;
                let name = fields.required_printable("name", NAME_CHARACTERS)?;
                Self::GetPrompt { name, args: fields.object("args")? }
            }
            Method::GetResource => {
                let fields = Fields::params(params, &["id", "uri"])?;
                let uri = match (fields.raw("id"), fields.raw("uri")) {
                    (Some(_), Some(_)) => {
                        return Err(fields.invalid("uri", "send either `id` or `uri`"));
                    }
                    (Some(_), None) => fields.required_printable("id", URI_CHARACTERS)?,
                    (None, _) => fields.required_printable("uri", URI_CHARACTERS)?,
                };
                Self::GetResource { uri }
            }
            Method::StartSampling => Self::StartSampling { input: required_input(params)? },
            Method::Input => Self::Input { input: required_input(params)? },
            Method::StepSampling => {
                let fields = Fields::params(params, &["session", "input"])?;
                let session = fields.required_printable("session", OPAQUE_CHARACTERS)?;
                Self::StepSampling { session, input: input(&fields)? }
            }
            Method::Named(name) => {
                if let Some(params) = params {
                    Fields::open(params, String::new())?;
                }
                Self::Named { name: name.to_owned(), args: params }
            }
            Method::Unknown(method) => Self::Unknown { method: method.to_owned() },
        })
    }

    /// The name in execution graphs: the method without the agent.
    pub fn name(&self) -> &str {
        match self {
            Self::Named { name, .. } => name,
            Self::Unknown { method } => method,
            _ => self.event(),
        }
    }

    /// The name in audit events. Callers cannot choose a part of it.
    pub fn event(&self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::Input { .. } => "input",
            Self::ListTools => "tools.list",
            Self::CallTool { .. } => "tools.call",
            Self::ListResources => "resources.list",
            Self::GetResource { .. } => "resources.get",
            Self::ListPrompts => "prompts.list",
            Self::GetPrompt { .. } => "prompts.get",
            Self::StartSampling { .. } => "sampling.start",
            Self::StepSampling { .. } => "sampling.step",
            Self::Named { .. } | Self::Unknown { .. } => "call",
        }
    }
}

fn input(fields: &Fields<'_>) -> Result<Option<Media>, Failure> {
    let read = |raw| Media::read(raw, fields.pointer("input"));
    fields.object("input")?.map(read).transpose()
}

fn required_input(params: Option<&RawValue>) -> Result<Media, Failure> {
    let fields = Fields::params(params, &["input"])?;
    input(&fields)?
        .ok_or_else(|| fields.invalid("input", "an object with `type` and `value` is required"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(method: &str, params: &str) -> Result<String, String> {
        let raw: &RawValue = serde_json::from_str(params).unwrap();
        match Call::read(method, Some(raw)) {
            Ok(call) => Ok(format!("{} {}", call.agent, call.operation.name())),
            Err(failure) => Err(failure.reason.into_owned()),
        }
    }

    #[test]
    fn addresses_are_split_at_first_separators() {
        for (method, params, expected) in [
            ("a::help", "{}", "a help"),
            ("acme/docs::tools.list", "{}", "acme/docs tools.list"),
            ("a.b::tools.call", r#"{"tool":"x","args":{"a":1}}"#, "a.b tools.call"),
            ("a::resources.get", r#"{"id":"doc-1"}"#, "a resources.get"),
            ("a::resources.get", r#"{"uri":"file:///x"}"#, "a resources.get"),
            ("a::prompts.get", r#"{"name":"p"}"#, "a prompts.get"),
            ("a::sampling.step", r#"{"session":"s"}"#, "a sampling.step"),
            ("a::input", r#"{"input":{"type":"text","value":"x"}}"#, "a input"),
            ("a::fetch", r#"{"symbol":"AAPL"}"#, "a fetch"),
            ("a::fs.read.all", "{}", "a fs.read.all"),
            ("a:::help", "{}", "a :help"),
        ] {
            assert_eq!(read(method, params), Ok(expected.to_owned()), "{method}");
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for (method, reason) in [
            ("a::b::c", "INVALID_ADDRESS"),
            ("::help", "INVALID_ADDRESS"),
            ("a::", "INVALID_ADDRESS"),
            ("a b::help", "INVALID_ADDRESS"),
            ("<namespace>::help", "INVALID_ADDRESS"),
            ("a/b/c::help", "INVALID_ADDRESS"),
            ("a::he\u{0}lp", "INVALID_ADDRESS"),
        ] {
            assert_eq!(read(method, "{}"), Err(reason.to_owned()), "{method:?}");
        }
        assert_eq!(Reason::InvalidAddress.code(), -32600);
    }

    #[test]
    fn unknown_methods_of_modules_are_no_names() {
        for method in ["tools.delete", "sampling.", "prompts.list.all"] {
            let call = Call::read(&format!("a::{method}"), None).unwrap();
            assert!(matches!(call.operation, Operation::Unknown { .. }), "{method}: {call:?}");
            assert_eq!(call.operation.name(), method);
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for (method, params) in [
            ("a::help", r#"{"x":1}"#),
            ("a::tools.call", "{}"),
            ("a::tools.call", r#"{"tool":"x","args":[1]}"#),
            ("a::tools.call", r#"{"tool":"x","arguments":{}}"#),
            ("a::resources.get", "{}"),
            ("a::resources.get", r#"{"id":"a","uri":"b"}"#),
            ("a::prompts.get", r#"{"name":1}"#),
            ("a::sampling.start", "{}"),
            ("a::sampling.start", r#"{"input":"text"}"#),
            ("a::sampling.start", r#"{"input":{"type":"smell","value":"x"}}"#),
            ("a::sampling.step", r#"{"input":{"type":"text","value":"x"}}"#),
            ("a::input", r#"{"type":"text","value":"x"}"#),
            ("a::fetch", r#"{"a":1,"a":2}"#),
        ] {
            assert_eq!(read(method, params), Err("INVALID_PARAMS".to_owned()), "{method} {params}");
        }
    }

    proptest! {
        #[test]
        fn addresses_survive_splitting(agent in "[a-z][a-z0-9._-]{0,8}", name in "[a-z]{1,6}(\\.[a-z]{1,6}){0,2}") {
            match split(&format!("{agent}::{name}")) {
                Ok((found, Method::Named(rest))) => {
                    prop_assert_eq!(found.as_str(), agent);
                    prop_assert_eq!(rest, name);
                }
                Ok((found, method)) => {
                    prop_assert_eq!(found.as_str(), agent);
                    let is_known = METHODS.contains(&(name.as_str(), method));
                    prop_assert!(is_known || method == Method::Unknown(&name));
                }
                Err(failure) => prop_assert!(false, "{}", failure),
            }
        }

        #[test]
        fn arbitrary_methods_are_read_without_panic(method in ".{0,60}") {
            let _ = Call::read(&method, None);
        }
    }
}
