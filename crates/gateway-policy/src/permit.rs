//! The authorization of requests. Only [`authorize`] creates a [`Permit`], and no upstream can be
//! called without one.

use std::{sync::Arc, time::Duration};

use registry_core::Key;

use crate::{Access, RuntimeValidation};

/// Permission for one request to one upstream.
#[derive(Debug)]
pub struct Permit {
    server: Key,
    subject: Arc<str>,
}

impl Permit {
    /// The registered server or agent to call.
    pub fn server(&self) -> &Key {
        &self.server
    }

    /// The upstream's name of the called tool, prompt, resource or task.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Consumes the permit and returns its subject.
    pub fn into_subject(self) -> Arc<str> {
        self.subject
    }
}

/// The facts about a request that decide it.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The configured responses to violations.
    pub policy: RuntimeValidation,
    /// The relation of the caller to the subject.
    pub standing: Standing,
    /// Set if the catalog is too old for the request.
    pub stale: Option<StaleCatalog>,
    /// Whether the definition of the tool is quarantined.
    pub is_quarantined: bool,
}

/// An authorized request to an upstream.
#[derive(Debug)]
pub struct Authorized {
    /// The permission to call the upstream.
    pub permit: Permit,
    /// A violation that the policy lets pass.
    pub finding: Option<PolicyFinding>,
}

/// Authorizes a request to an upstream. `subject` is the upstream's name of the called tool, prompt,
/// resource or task.
pub fn authorize(
    facts: Facts,
    server: &Key,
    subject: impl Into<Arc<str>>,
) -> Result<Authorized, Denial> {
    let finding = authorize_composition(facts)?;
    Ok(Authorized { permit: Permit { server: server.clone(), subject: subject.into() }, finding })
}

/// Authorizes the call of a composition. Its steps are authorized one by one.
pub fn authorize_composition(facts: Facts) -> Result<Option<PolicyFinding>, Denial> {
    // The age of the catalog comes after the standing, so that the denial reveals nothing about
    // tools that are hidden from the caller.
    let finding = check_standing(facts.policy, facts.standing)?;
    if let Some(stale) = facts.stale {
        return Err(stale.into());
    }
    if facts.is_quarantined {
        return Err(Denial::Quarantined);
    }
    Ok(finding)
}

/// The relation of a caller to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A registered agent that declared the tool.
    Declared,
    /// A registered agent that did not declare the tool.
    Undeclared,
    /// A registered agent that declared the tool in a retired version.
    RetiredDependency,
    /// A registered agent in a retired version.
    RetiredAgent,
    /// A registered agent in an unregistered version.
    UnknownVersion,
    /// An unregistered caller.
    UnknownCaller,
}

/// A violation that the policy lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyFinding {
    /// The agent did not declare the tool.
    UndeclaredDependency,
    /// The agent declared the tool in a retired version, and another version is called.
    RetiredDependency,
    /// The caller is not registered.
    UnknownCaller,
}

impl PolicyFinding {
    /// The name in audit and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UndeclaredDependency => "undeclared-dependency",
            Self::RetiredDependency => "retired-dependency",
            Self::UnknownCaller => "unknown-caller",
        }
    }
}

/// The reason of a denial. All but the last three are reported to the caller as an unknown tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The tool is not registered or cannot be served.
    #[error("the tool is not registered or cannot be served")]
    NoSuchTool,
    /// The agent did not declare the tool.
    #[error("the agent does not declare the tool")]
    UndeclaredDependency,
    /// The version of the agent is retired.
    #[error("this version of the agent is retired")]
    RetiredAgent,
    /// The version of the agent is not registered, or it is required and missing.
    #[error(
        "this version of the agent is not registered; a request without a version needs a gateway \
         whose scope has all versions of the agent"
    )]
    UnknownVersion,
    /// The caller is not registered.
    #[error("the caller is not a registered agent")]
    UnknownCaller,
    /// The agent declared the tool in a version that is retired, or whose server is.
    #[error("the agent declares a retired version of the tool")]
    RetiredDependency,
    /// The definition of the upstream differs from the registered or first seen one.
    #[error("the tool is quarantined: the current definition of its server is not accepted")]
    Quarantined,
    /// The catalog is too old for a decision about the call.
    #[error(transparent)]
    Stale(#[from] StaleCatalog),
}

/// A catalog that is too old for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the catalog is too old: its age is {}, the limit {}", format_age(*.age), format_age(*.limit))]
pub struct StaleCatalog {
    /// The time since the catalog was known to be the latest. `None`: unknown.
    pub age: Option<Duration>,
    /// The maximum age for the request.
    pub limit: Option<Duration>,
    /// Whether the tool is read-only.
    pub is_read_only: bool,
}

/// Formats the age of a catalog.
pub fn format_age(time: Option<Duration>) -> String {
    time.map_or_else(|| "an unknown time".to_owned(), |time| format!("{} s", time.as_secs()))
}

impl Denial {
    /// The name in audit and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSuchTool => "no-such-tool",
            Self::UndeclaredDependency => "undeclared-dependency",
            Self::RetiredAgent => "retired-agent",
            Self::UnknownVersion => "unknown-version",
            Self::UnknownCaller => "unknown-caller",
            Self::RetiredDependency => "retired-dependency",
            Self::Quarantined => "quarantined",
            Self::Stale(_) => "stale-catalog",
        }
    }
}

/// Decides by the standing of the caller alone. Lists and calls use the same decision.
pub fn check_standing(
    policy: RuntimeValidation,
    standing: Standing,
) -> Result<Option<PolicyFinding>, Denial> {
    let (access, finding, denial) = match standing {
        Standing::Declared => return Ok(None),
        // Independent of the modes: a retired agent must not get the access of unknown callers.
        Standing::RetiredAgent => return Err(Denial::RetiredAgent),
        Standing::UnknownVersion => return Err(Denial::UnknownVersion),
        Standing::Undeclared => (
            policy.undeclared_dependency,
            PolicyFinding::UndeclaredDependency,
            Denial::UndeclaredDependency,
        ),
        Standing::RetiredDependency => (
            policy.undeclared_dependency,
            PolicyFinding::RetiredDependency,
            Denial::RetiredDependency,
        ),
        Standing::UnknownCaller => {
            (policy.unknown_caller, PolicyFinding::UnknownCaller, Denial::UnknownCaller)
        }
    };
    match access {
        Access::Allow => Ok(None),
        Access::Warn => Ok(Some(finding)),
        Access::Deny => Err(denial),
    }
}
