//! `registry.validation.runtime.tools`: what is checked of single tools, otherwise than of all.
//!
//! Deliberately absent: whether such a tool is registered; that may change at any time.

use std::{fmt, str::FromStr};

use registry_core::{Catalog, Key, Kind, Name, Version};

use super::{
    CONTRACTS, Mode, RegistryConfig, RuntimeValidation, VIOLATIONS,
    read::{Field, Section},
};

/// What is checked of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Arguments that do not match the input schema.
    pub input: Mode,
    /// Results that do not match the output schema.
    pub output: Mode,
    /// A definition of the upstream's that is another one; `Error` is written `quarantine`.
    pub contract: Mode,
}

/// One entry of the list; what it leaves open is as for a less exact entry, or for all tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolValidation {
    /// Which tool.
    pub tool: ToolSelector,
    /// `inputValidation`.
    pub input: Option<Mode>,
    /// `outputValidation`.
    pub output: Option<Mode>,
    /// `contractDrift`.
    pub contract: Option<Mode>,
}

/// A tool in every version, or in one: `NAME`, `NAME@VERSION`; or what compositions ask of an agent:
/// `agent/NAME`, `agent/NAME@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSelector {
    kind: Kind,
    name: Name,
    version: Option<Version>,
}

impl ToolSelector {
    /// Whether it means this tool, or this agent.
    pub fn selects(&self, tool: &Key) -> bool {
        tool.kind == self.kind
            && self.name == tool.name
            && self.version.as_ref().is_none_or(|version| *version == tool.version)
    }

    /// Of some entries the one for a tool's version, and the one for all of its versions.
    pub(super) fn select<'a, E>(
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

    /// Whether a catalog has what it means.
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

/// What is checked of all tools, and of single ones.
#[derive(Debug, Clone)]
pub struct CheckRules {
    all: Checks,
    tools: Vec<ToolValidation>,
}

impl CheckRules {
    /// What is checked of a tool: the entry of its version goes before that of its name, and both
    /// before what is set for all.
    pub fn of(&self, tool: &Key) -> Checks {
        let [exact, named] = ToolSelector::select(&self.tools, |entry| &entry.tool, tool);
        let set = |mode: fn(&ToolValidation) -> Option<Mode>, all| {
            exact.and_then(mode).or_else(|| named.and_then(mode)).unwrap_or(all)
        };
        Checks {
            input: set(|entry| entry.input, self.all.input),
            output: set(|entry| entry.output, self.all.output),
            contract: set(|entry| entry.contract, self.all.contract),
        }
    }

    /// The single tools.
    pub fn tools(&self) -> impl Iterator<Item = &ToolSelector> {
        self.tools.iter().map(|entry| &entry.tool)
    }
}

impl From<RuntimeValidation> for CheckRules {
    fn from(runtime: RuntimeValidation) -> Self {
        Self { all: runtime.into(), tools: Vec::new() }
    }
}

impl Default for CheckRules {
    fn default() -> Self {
        RuntimeValidation::default().into()
    }
}

impl From<RuntimeValidation> for Checks {
    fn from(runtime: RuntimeValidation) -> Self {
        Self {
            input: runtime.input_validation,
            output: runtime.output_validation,
            contract: runtime.contract_drift,
        }
    }
}

impl RegistryConfig {
    /// What is checked of which tool.
    pub fn check_rules(&self) -> CheckRules {
        CheckRules { all: self.runtime.into(), tools: self.tools.clone() }
    }
}

/// Reads the list; an entry that is wrong is left out and reported.
pub(super) fn read(runtime: &Section<'_>) -> Vec<ToolValidation> {
    read_each(runtime, entry, |entry| &entry.tool)
}

/// Reads a list `tools` with an entry for each tool.
pub(super) fn read_each<E>(
    section: &Section<'_>,
    entry: fn(&Field<'_>) -> Option<E>,
    selector: fn(&E) -> &ToolSelector,
) -> Vec<E> {
    let items = section.find("tools").map(|field| field.list()).unwrap_or_default();
    let mut tools = Vec::<E>::new();
    for item in items {
        let Some(entry) = entry(&item) else { continue };
        if tools.iter().any(|known| selector(known) == selector(&entry)) {
            item.problem(format!("{} has an entry already; remove one", selector(&entry)));
        } else {
            tools.push(entry);
        }
    }
    tools
}

fn entry(item: &Field<'_>) -> Option<ToolValidation> {
    let section = item.section();
    let tool = section.require("tool", "it names a tool: NAME or NAME@VERSION");
    let tool = tool.and_then(|field| field.parse(str::parse));
    let [input, output] = ["inputValidation", "outputValidation"]
        .map(|name| section.find(name).and_then(|field| field.choice(VIOLATIONS)));
    let contract = section.find("contractDrift").and_then(|field| field.choice(CONTRACTS));
    section.finish();
    Some(ToolValidation { tool: tool?, input, output, contract })
}
