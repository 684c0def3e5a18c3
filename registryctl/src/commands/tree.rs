//! `tree`: the dependencies or dependents of an entity.
//!
//! A subtree is printed once and marked with `(*)` afterwards, so that the output is not larger than the
//! graph. The `provides` of a server are not dependencies, so that the tree omits them.

use std::fmt::Write as _;

use registry_core::Key;
use registry_proto::v1;
use serde::Serialize;

use super::{Session, draw, missing};
use crate::{
    cli::{Format, Output, TreeArgs},
    client::{Client, request},
    diagram::Diagram,
    failure::Failure,
    graph::{Edge, Graph, Node},
    style::{Paint, Style, printable},
};

pub(super) async fn run(session: &Session, args: &TreeArgs) -> Result<(), Failure> {
    let key = args.entity.key()?;
    let client = session.connect().await?;
    let (graph, revision) = fetch(&client, &key, args).await?;
    let screen = session.screen;
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        let title = if args.dependents { "dependents of" } else { "dependencies of" };
        let root = graph.nodes.first().map(Node::label).unwrap_or_default();
        draw(session, &Diagram::from_graph(format!("{title} {root}"), &graph))?;
    } else if screen.format == Format::Json {
        screen.json(&TreeView::new(&graph, revision))?;
    } else {
        let depth = args.depth.and_then(|depth| usize::try_from(depth).ok());
        let tree = Tree::new(&graph, args.dependents, depth.unwrap_or(usize::MAX));
        screen.bytes(tree.text(screen.style).as_bytes())?;
    }
    if graph.truncated {
        let (shown, total) = (graph.nodes.len(), graph.total);
        eprintln!(
            "note: the output is truncated to {shown} of {total} entities; raise --limit or lower --depth"
        );
    }
    Ok(())
}

async fn fetch(client: &Client, key: &Key, args: &TreeArgs) -> Result<(Graph, u64), Failure> {
    let TreeArgs { dependents, depth, limit, as_of, .. } = args;
    let (keys, max_depth, max_nodes) = (vec![key.into()], *depth, *limit);
    let at = as_of.message();
    let answer = if *dependents {
        let wanted = v1::GetDependentsRequest { keys, max_depth, max_nodes, at, min_revision: 0 };
        let answer = client.answer(client.graph().get_dependents(request(wanted))).await;
        answer.map(|answer| (answer.graph, answer.revision))
    } else {
        let wanted = v1::GetDependenciesRequest { keys, max_depth, max_nodes, at, min_revision: 0 };
        let answer = client.answer(client.graph().get_dependencies(request(wanted))).await;
        answer.map(|answer| (answer.graph, answer.revision))
    };
    let (graph, revision) = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            let (version, at) = (Some(&key.version), as_of.at);
            return Err(missing::explain(client, failure, key.kind, &key.name, version, at).await);
        }
    };
    let graph = graph.ok_or_else(|| Failure::invalid_response("the graph is missing"))?;
    Ok((graph.into(), revision))
}

/// The JSON result.
#[derive(Serialize)]
struct TreeView<'a> {
    revision: u64,
    total: u64,
    truncated: bool,
    nodes: Vec<NodeView<'a>>,
    edges: Vec<EdgeView>,
}

#[derive(Serialize)]
struct NodeView<'a> {
    #[serde(flatten)]
    node: &'a Node,
    depth: u32,
}

#[derive(Serialize)]
struct EdgeView {
    from: String,
    to: String,
    relation: &'static str,
}

impl<'a> TreeView<'a> {
    fn new(graph: &'a Graph, revision: u64) -> Self {
        let Graph { nodes, depths, edges, total, truncated } = graph;
        let name = |position: usize| nodes[position].key.to_string();
        let edge = |Edge { from, to, relation }: &Edge| EdgeView {
            from: name(*from),
            to: name(*to),
            relation,
        };
        let depths = depths.iter().copied().chain(std::iter::repeat(0));
        Self {
            revision,
            total: *total,
            truncated: *truncated,
            nodes: nodes.iter().zip(depths).map(|(node, depth)| NodeView { node, depth }).collect(),
            edges: edges.iter().map(edge).collect(),
        }
    }
}

/// The graph as a tree below its first node.
struct Tree<'a> {
    nodes: &'a [Node],
    /// The children of each node.
    children: Vec<Vec<usize>>,
    max_depth: usize,
}

/// A pending line.
struct Line {
    node: usize,
    depth: usize,
    /// The prefix of the line.
    lead: String,
    /// The prefix of its children.
    below: String,
}

impl<'a> Tree<'a> {
    fn new(graph: &'a Graph, dependents: bool, max_depth: usize) -> Self {
        let mut children = vec![Vec::new(); graph.nodes.len()];
        for Edge { from, to, .. } in &graph.edges {
            let (above, under) = if dependents { (to, from) } else { (from, to) };
            children[*above].push(*under);
        }
        Self { nodes: &graph.nodes, children, max_depth }
    }

    /// The tree as text. A loop replaces recursion: paths may be long.
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let mut is_printed = vec![false; self.nodes.len()];
        let mut pending = Vec::new();
        if !self.nodes.is_empty() {
            pending.push(Line { node: 0, depth: 0, lead: String::new(), below: String::new() });
        }
        while let Some(Line { node, depth, lead, below }) = pending.pop() {
            let is_repeated = is_printed[node] && !self.children[node].is_empty();
            let mark = if is_repeated { " (*)" } else { "" };
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{lead}{}{mark}", label(&self.nodes[node], style));
            if is_repeated || depth >= self.max_depth {
                continue;
            }
            is_printed[node] = true;
            let last = self.children[node].len().saturating_sub(1);
            let lines = self.children[node].iter().enumerate().map(|(i, node)| {
                let (branch, trunk) =
                    if i == last { ("└── ", "    ") } else { ("├── ", "│   ") };
                let (lead, below) = (format!("{below}{branch}"), format!("{below}{trunk}"));
                Line { node: *node, depth: depth + 1, lead, below }
            });
            let lines: Vec<_> = lines.collect();
            pending.extend(lines.into_iter().rev());
        }
        text
    }
}

/// The colored label of an entity.
pub(super) fn label(node: &Node, style: Style) -> String {
    let label = node.label();
    let label = printable(&label);
    match node.lifecycle {
        "active" => label.into_owned(),
        "deprecated" => style.paint(Paint::Careful, label),
        _ => style.paint(Paint::Dim, label),
    }
}
