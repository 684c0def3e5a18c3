//! The schemas of upstream tools, known from the registered tools that describe their source.
//!
//! Otherwise, a tool of the nearest earlier version of the server describes the source.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    rc::Rc,
};

use serde_json::Value;

use super::proposal::Proposal;
use crate::{
    catalog::Catalog,
    entity::{Tool, ToolSource},
    kind::Kind,
    reference::Key,
};

/// Maximum number of earlier versions of a server whose tools are compared.
const EARLIER_VERSIONS: usize = 32;
/// Maximum number of dependents of earlier versions that a batch reads. Parsed entities stay in memory.
pub(super) const EARLIER_DEPENDENTS: usize = 1_000;

/// The source of a tool and one of its schemas, if it is the schema of the source.
type Describe = fn(&Tool) -> Option<(&ToolSource, &Value)>;
/// The schemas of a server's tools and these tools, by upstream tool. `None` if tools disagree.
type ToolSchemas<'a> = BTreeMap<&'a str, Option<(&'a Value, &'a Key)>>;
/// The tools of a batch that describe their sources, by server.
type NewTools<'a> = BTreeMap<Key, Vec<(&'a Key, &'a Tool)>>;

/// The input or output schemas of the sources in a batch.
pub(super) struct SourceSchemas<'a> {
    proposal: &'a Proposal<'a>,
    describe: Describe,
    new_tools: NewTools<'a>,
    /// The servers that were read.
    by_server: BTreeMap<Key, ToolSchemas<'a>>,
    /// The earlier versions of servers, nearest first.
    earlier: BTreeMap<Key, Rc<[Key]>>,
    /// Number of dependents of earlier versions that may still be read.
    dependents: usize,
}

/// The schema of a source.
#[derive(Clone, Copy)]
pub(super) struct SourceSchema<'a> {
    pub(super) schema: &'a Value,
    /// The tool with this schema.
    pub(super) of: &'a Key,
    /// Whether the schema is that of the source's version of the server.
    pub(super) is_exact: bool,
}

impl<'a> SourceSchemas<'a> {
    pub(super) fn new(proposal: &'a Proposal<'a>, describe: Describe) -> Self {
        let mut new_tools = NewTools::new();
        for new in &proposal.new {
            let Some(tool) = new.entity().as_tool() else { continue };
            if let Some((source, _)) = describe(tool) {
                new_tools.entry(source.server_key()).or_default().push((new.key(), tool));
            }
        }
        Self {
            proposal,
            describe,
            new_tools,
            by_server: BTreeMap::new(),
            earlier: BTreeMap::new(),
            dependents: EARLIER_DEPENDENTS,
        }
    }

    /// The schema of a source; `None` if it is unknown or ambiguous.
    pub(super) fn find(&mut self, source: &ToolSource) -> Option<SourceSchema<'a>> {
        let (upstream, server) = (&*source.tool, source.server_key());
        if let Some(found) = self.schemas(&server).get(upstream) {
            return found.map(|(schema, of)| SourceSchema { schema, of, is_exact: true });
        }
        for earlier in &*self.earlier_versions(&server) {
            if !self.may_read(earlier) {
                return None;
            }
            if let Some(found) = self.schemas(earlier).get(upstream) {
                return found.map(|(schema, of)| SourceSchema { schema, of, is_exact: false });
            }
        }
        None
    }

    /// Like [`Self::find`], without earlier versions of the server: the schema and its tool.
    pub(super) fn find_exact(&mut self, source: &ToolSource) -> Option<(&'a Value, &'a Key)> {
        self.schemas(&source.server_key()).get(&*source.tool).copied().flatten()
    }

    /// The schemas of a server's tools, read once.
    fn schemas(&mut self, server: &Key) -> &ToolSchemas<'a> {
        let Self { proposal, describe, new_tools, by_server, .. } = self;
        let read = || tool_schemas(proposal.catalog(), *describe, new_tools, server);
        by_server.entry(server.clone()).or_insert_with(read)
    }

    /// The versions of a server before this one, at most the nearest [`EARLIER_VERSIONS`].
    fn earlier_versions(&mut self, server: &Key) -> Rc<[Key]> {
        let earlier = || {
            let versions = self.proposal.versions(server.kind, &server.name);
            let mut earlier: Vec<_> =
                versions.filter(|version| **version < server.version).collect();
            earlier.sort();
            let nearest = earlier.into_iter().rev().take(EARLIER_VERSIONS);
            nearest.map(|version| Key { version: version.clone(), ..server.clone() }).collect()
        };
        Rc::clone(self.earlier.entry(server.clone()).or_insert_with(earlier))
    }

    /// Whether the limit of the batch allows the tools of an earlier version.
    fn may_read(&mut self, server: &Key) -> bool {
        if self.by_server.contains_key(server) {
            return true;
        }
        let dependents = self.proposal.catalog().dependents(server);
        let rest = self.dependents.checked_sub(dependents.take(EARLIER_DEPENDENTS + 1).count());
        self.dependents = rest.unwrap_or(self.dependents);
        rest.is_some()
    }
}

fn tool_schemas<'a>(
    catalog: &'a Catalog,
    describe: Describe,
    new_tools: &NewTools<'a>,
    server: &Key,
) -> ToolSchemas<'a> {
    let registered = catalog.dependents(server).filter(|key| key.kind == Kind::Tool);
    let registered = registered.filter_map(|key| {
        let document = &catalog.find(key)?.document;
        Some((document.key(), document.entity().as_tool()?))
    });
    let new = new_tools.get(server).into_iter().flatten().copied();
    let mut schemas = ToolSchemas::new();
    for (key, tool) in registered.chain(new) {
        let Some((source, schema)) = describe(tool) else { continue };
        if source.server_key() != *server {
            continue;
        }
        match schemas.entry(&*source.tool) {
            Entry::Vacant(entry) => {
                entry.insert(Some((schema, key)));
            }
            Entry::Occupied(mut entry) => {
                let is_same = |(known, _): (&Value, &Key)| known == schema;
                if !entry.get().is_some_and(is_same) {
                    entry.insert(None);
                }
            }
        }
    }
    schemas
}
