//! The paths of the surface: `/a2a/{agent}`, `/a2a/{namespace}/{agent}` and `/a2a`, each followed by
//! a path of the HTTP+JSON binding or of a card.

use a2a::{ErrorKind, Failure};
use percent_encoding::percent_decode_str;
use registry_core::{Kind, Name, Version};

/// The prefix of all paths.
pub(super) const PREFIX: &str = "/a2a";

/// The addressed agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentName {
    pub(super) name: Name,
    /// `None`: the version that the caller declared, else the newest.
    pub(super) version: Option<Version>,
}

/// A path below [`PREFIX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// `None`: the request names the agent.
    pub(super) agent: Option<AgentName>,
    /// The rest: empty for JSON-RPC.
    pub(super) rest: &'a str,
}

impl AgentName {
    /// Parses `name` or `name@version`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.rsplit_once('@') {
            Some((name, version)) => (name, Some(Version::parse(version).ok()?)),
            None => (text, None),
        };
        Some(Self { name: Name::parse(Kind::Agent, name).ok()?, version })
    }

    /// The error for agents that do not exist for the caller.
    pub(super) fn not_found(text: &str) -> Failure {
        let shown: String = text.chars().take(128).collect();
        let message = format!("agent {shown:?} is not found; /.well-known/agents lists the agents");
        Failure::new(ErrorKind::AgentNotFound, message).with_metadata("agent", shown)
    }
}

impl std::fmt::Display for AgentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, version } = self;
        match version {
            Some(version) => write!(f, "{name}@{version}"),
            None => write!(f, "{name}"),
        }
    }
}

impl<'a> Address<'a> {
    /// Splits a raw path. The agent ends where a path of a binding begins.
    pub(super) fn parse(path: &'a str) -> Result<Self, Failure> {
        let below = path.strip_prefix(PREFIX).unwrap_or(path);
        let mut end = 0;
        for segment in below.split('/').skip(1).filter(|segment| !segment.is_empty()) {
            if is_binding(segment) {
                break;
            }
            end += 1 + segment.len();
        }
        let (agent, rest) = below.split_at_checked(end).unwrap_or((below, ""));
        let rest = if rest == "/" { "" } else { rest };
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(AgentName::not_found(below));
        }
        let text = percent_decode_str(agent.trim_start_matches('/')).decode_utf8();
        let text = text.map_err(|_| AgentName::not_found(below))?;
        if text.is_empty() {
            return Ok(Self { agent: None, rest });
        }
        let agent = AgentName::parse(&text).ok_or_else(|| AgentName::not_found(&text))?;
        Ok(Self { agent: Some(agent), rest })
    }
}

/// Whether a segment begins a path of the HTTP+JSON binding in any version, or of a card.
fn is_binding(segment: &str) -> bool {
    matches!(segment, "tasks" | "v1" | "extendedAgentCard" | ".well-known")
        || segment.starts_with("message:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> Option<(String, String)> {
        let Address { agent, rest } = Address::parse(path).ok()?;
        let agent = agent.map(|agent| agent.to_string()).unwrap_or_default();
        Some((agent, rest.to_owned()))
    }

    #[test]
    fn path_names_agent_version_and_operation() {
        for (path, agent, rest) in [
            ("/a2a", "", ""),
            ("/a2a/", "", ""),
            ("/a2a/tasks", "", "/tasks"),
            ("/a2a/helper", "helper", ""),
            ("/a2a/helper/", "helper", ""),
            ("/a2a/helper@1.2.0", "helper@1.2.0", ""),
            ("/a2a/helper%401.2.0/", "helper@1.2.0", ""),
            ("/a2a/office/writer", "office/writer", ""),
            ("/a2a/office%2Fwriter/message:send", "office/writer", "/message:send"),
            (
                "/a2a/office/writer@2.0.0/tasks/a%2Fb:cancel",
                "office/writer@2.0.0",
                "/tasks/a%2Fb:cancel",
            ),
            ("/a2a/helper/v1/message:stream", "helper", "/v1/message:stream"),
            ("/a2a/helper/.well-known/agent-card.json", "helper", "/.well-known/agent-card.json"),
        ] {
            assert_eq!(parsed(path), Some((agent.to_owned(), rest.to_owned())), "{path}");
        }
    }

    #[test]
    fn path_without_valid_name_is_not_found() {
        for path in ["/a2a/a/b/c", "/a2a/helper@x", "/a2a/%ff", "/a2a/a b", "/a2a/helper@"] {
            assert_eq!(parsed(path), None, "{path}");
        }
    }
}
