//! A dependency graph as a picture: which entities, which of them need which, and how each is
//! marked. Written for Graphviz, for Mermaid, or as SVG that is drawn here.
//!
//! The same graph gives the same bytes.

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

/// What is special about an entity of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    Plain,
    /// The picture is about it.
    Root,
    /// It breaks.
    Breaks,
}

/// An entity of a picture.
#[derive(Debug)]
struct Shape {
    name: String,
    kind: Option<Kind>,
    lifecycle: String,
    mark: Mark,
}

impl Shape {
    /// Its name, and its lifecycle if it is not active.
    fn label(&self) -> String {
        let Self { name, lifecycle, .. } = self;
        if lifecycle == "active" { name.clone() } else { format!("{name} ({lifecycle})") }
    }

    fn kind(&self) -> &'static str {
        self.kind.map_or("unknown", Kind::as_str)
    }
}

/// A graph to be drawn.
#[derive(Debug)]
pub(crate) struct Picture {
    title: String,
    shapes: Vec<Shape>,
    positions: BTreeMap<String, usize>,
    /// The first needs the second; positions in `shapes`.
    lines: BTreeSet<(usize, usize)>,
}

impl Picture {
    pub(crate) fn new(title: String) -> Self {
        let (shapes, positions, lines) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Self { title, shapes, positions, lines }
    }

    /// A graph whose first node is what the picture is about.
    pub(crate) fn of(title: String, graph: &Graph) -> Self {
        let mut picture = Self::new(title);
        let names: Vec<String> = graph.nodes.iter().map(|node| node.key.to_string()).collect();
        for (i, (name, node)) in names.iter().zip(&graph.nodes).enumerate() {
            let mark = if i == 0 { Mark::Root } else { Mark::Plain };
            picture.add_node(name, node.lifecycle, mark);
        }
        for Edge { from, to, .. } in &graph.edges {
            picture.add_edge(&names[*from], &names[*to]);
        }
        picture
    }

    /// Paths with common ends, which the picture is about.
    pub(crate) fn of_paths(title: String, paths: &[Vec<Node>]) -> Self {
        let mut picture = Self::new(title);
        for path in paths {
            for (i, node) in path.iter().enumerate() {
                let is_end = i == 0 || i + 1 == path.len();
                let mark = if is_end { Mark::Root } else { Mark::Plain };
                picture.add_node(&node.key.to_string(), node.lifecycle, mark);
            }
            for step in path.windows(2) {
                picture.add_edge(&step[0].key.to_string(), &step[1].key.to_string());
            }
        }
        picture
    }

    /// Adds an entity, or says more about one that is there.
    pub(crate) fn add_node(&mut self, name: &str, lifecycle: &str, mark: Mark) {
        let position = self.position(name);
        let shape = &mut self.shapes[position];
        lifecycle.clone_into(&mut shape.lifecycle);
        shape.mark = mark;
    }

    /// Adds that one entity needs another.
    pub(crate) fn add_edge(&mut self, from: &str, to: &str) {
        let (from, to) = (self.position(from), self.position(to));
        self.lines.insert((from, to));
    }

    /// Adds what a graph says of the entities of the picture: their lifecycles, and which of them
    /// need each other.
    pub(crate) fn add_within(&mut self, graph: &Graph) {
        for node in &graph.nodes {
            if let Some(position) = self.positions.get(&node.key.to_string()) {
                node.lifecycle.clone_into(&mut self.shapes[*position].lifecycle);
            }
        }
        let position = |at: usize| self.positions.get(&graph.nodes[at].key.to_string()).copied();
        let lines = graph.edges.iter().filter_map(|e| Some((position(e.from)?, position(e.to)?)));
        let lines: Vec<_> = lines.collect();
        self.lines.extend(lines);
    }

    fn position(&mut self, name: &str) -> usize {
        if let Some(position) = self.positions.get(name) {
            return *position;
        }
        let position = self.shapes.len();
        self.shapes.push(Shape {
            name: name.to_owned(),
            kind: name.split('/').next().and_then(|kind| kind.parse().ok()),
            lifecycle: "active".to_owned(),
            mark: Mark::Plain,
        });
        self.positions.insert(name.to_owned(), position);
        position
    }

    /// How many arrows it has.
    pub(crate) fn arrows(&self) -> usize {
        self.lines.len()
    }

    /// The picture as text; what is no form of a picture is drawn as SVG.
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
