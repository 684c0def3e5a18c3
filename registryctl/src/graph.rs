//! The dependency graph in the output of commands.

use registry_core::LifecycleState;
use registry_proto::{convert, v1};
use serde::Serialize;

use crate::view::{KeyView, LifecycleView};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Node {
    #[serde(flatten)]
    pub(crate) key: KeyView,
    pub(crate) digest: String,
    pub(crate) lifecycle: &'static str,
    pub(crate) owner: String,
}

impl Node {
    /// The key, and the lifecycle unless it is active.
    pub(crate) fn label(&self) -> String {
        match self.lifecycle {
            "active" => self.key.to_string(),
            state => format!("{} ({state})", self.key),
        }
    }
}

impl From<v1::GraphNode> for Node {
    fn from(node: v1::GraphNode) -> Self {
        let v1::GraphNode { key, digest, lifecycle_state, owner, depth: _ } = node;
        let lifecycle = convert::state(lifecycle_state).map_or("unknown", LifecycleState::as_str);
        Self { key: key.unwrap_or_default().into(), digest, lifecycle, owner }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// The distance of each node from the start.
    pub(crate) depths: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) total: u64,
    pub(crate) truncated: bool,
}

/// A direct dependency between the nodes with these indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The dependent.
    pub(crate) from: usize,
    /// The dependency.
    pub(crate) to: usize,
    pub(crate) relation: &'static str,
}

impl From<v1::DependencyGraph> for Graph {
    fn from(graph: v1::DependencyGraph) -> Self {
        let v1::DependencyGraph { nodes, edges, total_count: total, truncated } = graph;
        let position =
            |number: u32| usize::try_from(number).ok().filter(|position| *position < nodes.len());
        let edge = |v1::GraphEdge { dependent_index, dependency_index, relation }| {
            let (from, to) = (position(dependent_index)?, position(dependency_index)?);
            Some(Edge { from, to, relation: relation_text(relation) })
        };
        let edges = edges.into_iter().filter_map(edge).collect();
        let depths = nodes.iter().map(|node| node.depth).collect();
        let nodes = nodes.into_iter().map(Node::from).collect();
        Self { nodes, depths, edges, total, truncated }
    }
}

fn relation_text(number: i32) -> &'static str {
    match v1::DependencyRelation::try_from(number) {
        Ok(v1::DependencyRelation::Source) => "source",
        Ok(v1::DependencyRelation::Declared) => "depends",
        Ok(v1::DependencyRelation::Schema) => "schema",
        Ok(v1::DependencyRelation::Unspecified) | Err(_) => "unknown",
    }
}

/// The version that a requirement resolves to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Resolved {
    #[serde(flatten)]
    pub(crate) key: KeyView,
    pub(crate) digest: String,
    pub(crate) lifecycle: LifecycleView,
}

impl From<v1::ResolvedVersion> for Resolved {
    fn from(resolved: v1::ResolvedVersion) -> Self {
        let v1::ResolvedVersion { key, digest, lifecycle } = resolved;
        let lifecycle = lifecycle.unwrap_or_default().into();
        Self { key: key.unwrap_or_default().into(), digest, lifecycle }
    }
}
