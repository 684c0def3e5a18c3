//! Checks of all tools, with exceptions for single tools.

use std::{fmt, str::FromStr};

use registry_core::{Catalog, Key, Kind, Name, Version};

use crate::{RuntimeValidation, ValidationMode};

/// The checks of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidationModes {
    /// Arguments that violate the input schema.
    pub input: ValidationMode,
    /// Results that violate the output schema.
    pub output: ValidationMode,
    /// Upstream definitions that differ from the registered or first seen one; `Error` is written
    /// `quarantine`.
    pub contract: ValidationMode,
}

/// An exception of `registry.validation.runtime.tools`. An unset check falls back to the entry for
/// all versions of the tool, then to the check of all tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolValidation {
    /// The tools that it applies to.
    pub tool: ToolSelector,
    /// `inputValidation`.
    pub input: Option<ValidationMode>,
    /// `outputValidation`.
    pub output: Option<ValidationMode>,
    /// `contractDrift`.
    pub contract: Option<ValidationMode>,
}

/// A tool (`NAME`), one version of it (`NAME@VERSION`), or an agent as a step of compositions
/// (`agent/NAME`, `agent/NAME@VERSION`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSelector {
    kind: Kind,
    name: Name,
    version: Option<Version>,
}

impl ToolSelector {
    /// Whether this selects the tool or agent `tool`.
    pub fn selects(&self, tool: &Key) -> bool {
        tool.kind == self.kind
            && self.name == tool.name
            && self.version.as_ref().is_none_or(|version| *version == tool.version)
    }

    /// Finds the entry for the tool's version, and the one for all its versions.
    pub fn select<'a, E>(
        entries: &'a [E],
        selector: impl Fn(&E) -> &Self,
        tool: &Key,
    ) -> [Option<&'a E>; 2] {
        [true, false].map(|is_exact| {
            entries.iter().find(|entry| {
                let selector = selector(entry);
                selector.version.is_some() == is_exact && selector.selects(tool)
            })
        })
    }

    /// Whether the catalog contains a selected tool or agent.
    pub fn is_in(&self, catalog: &Catalog) -> bool {
        catalog.versions(self.kind, &self.name).any(|(key, _)| self.selects(key))
    }
}

impl FromStr for ToolSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let (kind, name) = match name.strip_prefix("agent/") {
            Some(agent) => (Kind::Agent, agent),
            None => (Kind::Tool, name),
        };
        let name = Name::parse(kind, name).map_err(|e| e.to_string())?;
        let version = version.map(Version::parse).transpose().map_err(|e| e.to_string())?;
        Ok(Self { kind, name, version })
    }
}

impl fmt::Display for ToolSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Agent {
            f.write_str("agent/")?;
        }
        self.name.fmt(f)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, "@{version}"))
    }
}

/// The checks of all tools, with exceptions for single tools.
#[derive(Debug, Clone)]
pub struct ValidationRules {
    all: ValidationModes,
    tools: Vec<ToolValidation>,
}

impl ValidationRules {
    /// Creates rules from the checks of all tools and their exceptions.
    pub fn new(runtime: RuntimeValidation, tools: Vec<ToolValidation>) -> Self {
        Self { all: runtime.into(), tools }
    }

    /// Returns the checks of a tool. The entry of its version takes precedence over the entry of its
    /// name, and that over the checks of all tools.
    pub fn for_tool(&self, tool: &Key) -> ValidationModes {
        let [exact, named] = ToolSelector::select(&self.tools, |entry| &entry.tool, tool);
        let set = |mode: fn(&ToolValidation) -> Option<ValidationMode>, all| {
            exact.and_then(mode).or_else(|| named.and_then(mode)).unwrap_or(all)
        };
        ValidationModes {
            input: set(|entry| entry.input, self.all.input),
            output: set(|entry| entry.output, self.all.output),
            contract: set(|entry| entry.contract, self.all.contract),
        }
    }

    /// The tools with exceptions.
    pub fn tools(&self) -> impl Iterator<Item = &ToolSelector> {
        self.tools.iter().map(|entry| &entry.tool)
    }
}

impl From<RuntimeValidation> for ValidationRules {
    fn from(runtime: RuntimeValidation) -> Self {
        Self { all: runtime.into(), tools: Vec::new() }
    }
}

impl Default for ValidationRules {
    fn default() -> Self {
        RuntimeValidation::default().into()
    }
}

impl From<RuntimeValidation> for ValidationModes {
    fn from(runtime: RuntimeValidation) -> Self {
        Self {
            input: runtime.input_validation,
            output: runtime.output_validation,
            contract: runtime.contract_drift,
        }
    }
}
