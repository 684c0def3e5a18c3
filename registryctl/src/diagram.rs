//! Diagrams of dependency graphs for Graphviz and Mermaid, and as SVG.
//!
//! Equal graphs have equal diagrams, byte for byte.

mod dot;
mod layout;
mod mermaid;
mod svg;

use std::collections::{BTreeMap, BTreeSet};

use registry_core::Kind;

use crate::{
    cli::Output,
    graph::{Edge, Graph, Node},
};

/// The emphasis of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Plain,
    /// The subject of the diagram.
    Root,
    /// A breaking dependent.
    Breaks,
}

#[derive(Debug)]
struct DiagramNode {
    name: String,
    kind: Option<Kind>,
    lifecycle: String,
    mark: Mark,
}

impl DiagramNode {
    /// The name, and the lifecycle unless it is active.
    fn label(&self) -> String {
        let Self { name, lifecycle, .. } = self;
        if lifecycle == "active" { name.clone() } else { format!("{name} ({lifecycle})") }
    }

    fn kind(&self) -> &'static str {
        self.kind.map_or("unknown", Kind::as_str)
    }
}

#[derive(Debug)]
pub(crate) struct Diagram {
    title: String,
    nodes: Vec<DiagramNode>,
    positions: BTreeMap<String, usize>,
    /// Indexes of dependents and dependencies in `nodes`.
    edges: BTreeSet<(usize, usize)>,
}

impl Diagram {
    pub(crate) fn new(title: String) -> Self {
        let (nodes, positions, edges) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Self { title, nodes, positions, edges }
    }

    /// A graph. Its first node is the subject.
    pub(crate) fn from_graph(title: String, graph: &Graph) -> Self {
        let mut diagram = Self::new(title);
        let names: Vec<String> = graph.nodes.iter().map(|node| node.key.to_string()).collect();
        for (i, (name, node)) in names.iter().zip(&graph.nodes).enumerate() {
            let mark = if i == 0 { Mark::Root } else { Mark::Plain };
            diagram.add_node(name, node.lifecycle, mark);
        }
        for Edge { from, to, .. } in &graph.edges {
            diagram.add_edge(&names[*from], &names[*to]);
        }
        diagram
    }

    /// Paths with common ends, which are the subject.
    pub(crate) fn from_paths(title: String, paths: &[Vec<Node>]) -> Self {
        let mut diagram = Self::new(title);
        for path in paths {
            for (i, node) in path.iter().enumerate() {
                let is_end = i == 0 || i + 1 == path.len();
                let mark = if is_end { Mark::Root } else { Mark::Plain };
                diagram.add_node(&node.key.to_string(), node.lifecycle, mark);
            }
            for step in path.windows(2) {
                diagram.add_edge(&step[0].key.to_string(), &step[1].key.to_string());
            }
        }
        diagram
    }

    /// Adds or updates a node.
    pub(crate) fn add_node(&mut self, name: &str, lifecycle: &str, mark: Mark) {
        let position = self.position(name);
        let node = &mut self.nodes[position];
        lifecycle.clone_into(&mut node.lifecycle);
        node.mark = mark;
    }

    /// Adds a dependency.
    pub(crate) fn add_edge(&mut self, from: &str, to: &str) {
        let (from, to) = (self.position(from), self.position(to));
        self.edges.insert((from, to));
    }

    /// Adds the lifecycles of the nodes and all dependencies between them from a graph.
    pub(crate) fn add_edges_between(&mut self, graph: &Graph) {
        for node in &graph.nodes {
            if let Some(position) = self.positions.get(&node.key.to_string()) {
                node.lifecycle.clone_into(&mut self.nodes[*position].lifecycle);
            }
        }
        let position = |at: usize| self.positions.get(&graph.nodes[at].key.to_string()).copied();
        let edges = graph.edges.iter().filter_map(|e| Some((position(e.from)?, position(e.to)?)));
        let edges: Vec<_> = edges.collect();
        self.edges.extend(edges);
    }

    fn position(&mut self, name: &str) -> usize {
        if let Some(position) = self.positions.get(name) {
            return *position;
        }
        let position = self.nodes.len();
        self.nodes.push(DiagramNode {
            name: name.to_owned(),
            kind: name.split('/').next().and_then(|kind| kind.parse().ok()),
            lifecycle: "active".to_owned(),
            mark: Mark::Plain,
        });
        self.positions.insert(name.to_owned(), position);
        position
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The diagram as text; SVG for formats without diagrams.
    pub(crate) fn write(&self, output: Output) -> String {
        match output {
            Output::Dot => dot::write(self),
            Output::Mermaid => mermaid::write(self),
            Output::Svg | Output::Table | Output::Json => svg::write(self),
        }
    }
}

#[cfg(test)]
mod tests;
