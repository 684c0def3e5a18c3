//! The registrations of several servers in one file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use registry_core::Name;

use crate::Draft;

/// The registrations of several servers, each tool name once.
#[derive(Debug, Default)]
pub struct Merged {
    /// The documents.
    pub draft: Draft,
    owners: BTreeMap<String, Name>,
}

/// Number of conflicts that a summary names.
const NAMED: usize = 10;

/// A tool that is left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The name of the tool.
    pub tool: String,
    /// Its server.
    pub server: Name,
    /// The earlier server with a tool of this name.
    pub owner: Name,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, server, owner } = self;
        write!(
            f,
            "the tool `{tool}` of {server} is left out: {owner} has a tool of this name; \
             `--tool-prefix always` keeps both as {owner}_{tool} and {server}_{tool}"
        )
    }
}

/// One message about several conflicts. It names at most [`NAMED`] of them.
pub fn summary(conflicts: &[Conflict]) -> Option<String> {
    let (first, others) = conflicts.split_first()?;
    if others.is_empty() {
        return Some(first.to_string());
    }
    let named: Vec<_> = conflicts.iter().take(NAMED).map(Conflict::names).collect();
    let more = match conflicts.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let (count, named) = (conflicts.len(), named.join(", "));
    Some(format!(
        "{count} tools are left out because earlier servers have tools of these names: \
         {named}{more}; `--tool-prefix always` keeps all of them as SERVER_TOOL"
    ))
}

impl Conflict {
    /// The tool and its two servers.
    fn names(&self) -> String {
        let Self { tool, server, owner } = self;
        format!("`{tool}` of {server} (also of {owner})")
    }
}

impl Merged {
    /// Adds a server without the tools whose names an earlier server has.
    pub fn add(&mut self, server: &Name, mut draft: Draft) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let mut kept = BTreeSet::new();
        draft.tools.retain(|tool| {
            let Some(name) = tool["name"].as_str() else { return false };
            if let Some(owner) = self.owners.get(name) {
                let (tool, server, owner) = (name.to_owned(), server.clone(), owner.clone());
                conflicts.push(Conflict { tool, server, owner });
                return false;
            }
            kept.insert(name.to_owned());
            true
        });
        if !conflicts.is_empty() {
            draft.provide_only(|tool| kept.contains(tool));
        }
        self.owners.extend(kept.into_iter().map(|name| (name, server.clone())));
        self.draft.schemas.append(&mut draft.schemas);
        self.draft.servers.append(&mut draft.servers);
        self.draft.tools.append(&mut draft.tools);
        self.draft.agents.append(&mut draft.agents);
        conflicts
    }
}
