//! `tree`: what an entity needs, or what needs it.
//!
//! What was shown once is not unfolded again, but marked with `(*)`, so that the text is not longer
//! than the graph. A server's `provides` is not a dependency, so the tree does not contain it.

use std::fmt::Write as _;

use registry_proto::v1;
use serde::Serialize;

use super::{Session, draw};
use crate::{
    cli::{Format, Output, TreeArgs},
    client::{Client, request},
    failure::Failure,
    graph::{Edge, Graph, Node},
    picture::Picture,
    style::{Paint, Style, printable},
};

pub(super) async fn run(session: &Session, args: &TreeArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let (graph, revision) = fetch(&client, args).await?;
    let screen = session.screen;
    if !matches!(session.globals.output, Output::Table | Output::Json) {
        let title = if args.dependents { "what needs" } else { "what is needed by" };
        let root = graph.nodes.first().map(Node::label).unwrap_or_default();
        draw(session, &Picture::of(format!("{title} {root}"), &graph))?;
    } else if screen.format == Format::Json {
        screen.json(&TreeView::new(&graph, revision))?;
    } else {
        let depth = args.depth.and_then(|depth| usize::try_from(depth).ok());
        let tree = Tree::new(&graph, args.dependents, depth.unwrap_or(usize::MAX));
        screen.bytes(tree.text(screen.style).as_bytes())?;
    }
    if graph.truncated {
        let (shown, total) = (graph.nodes.len(), graph.total);
        eprintln!("note: {shown} of {total} entities are shown; --limit and --depth choose");
    }
    Ok(())
}

async fn fetch(client: &Client, args: &TreeArgs) -> Result<(Graph, u64), Failure> {
    let TreeArgs { entity, dependents, depth, limit, at } = args;
    let (keys, depth, limit) = (vec![(&entity.key()?).into()], *depth, *limit);
    let at = at.message();
    let (graph, revision) = if *dependents {
        let wanted = v1::GetDependentsRequest { keys, depth, limit, at };
        let answer = client.answer(client.graph().get_dependents(request(wanted))).await?;
        (answer.graph, answer.revision)
    } else {
        let wanted = v1::GetDependenciesRequest { keys, depth, limit, at };
        let answer = client.answer(client.graph().get_dependencies(request(wanted))).await?;
        (answer.graph, answer.revision)
    };
    let graph = graph.ok_or_else(|| Failure::answer("there is no graph in it"))?;
    Ok((graph.into(), revision))
}

/// The result for scripts.
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

/// A graph, unfolded from its first node.
struct Tree<'a> {
    nodes: &'a [Node],
    /// For each node, what is shown below it.
    below: Vec<Vec<usize>>,
    deepest: usize,
}

/// A line that is still to be written.
struct Line {
    node: usize,
    depth: usize,
    /// What stands before it, and before what is below it.
    lead: String,
    below: String,
}

impl<'a> Tree<'a> {
    fn new(graph: &'a Graph, dependents: bool, deepest: usize) -> Self {
        let mut below = vec![Vec::new(); graph.nodes.len()];
        for Edge { from, to, .. } in &graph.edges {
            let (above, under) = if dependents { (to, from) } else { (from, to) };
            below[*above].push(*under);
        }
        Self { nodes: &graph.nodes, below, deepest }
    }

    /// The tree as text; a path of a thousand steps is no recursion.
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let mut unfolded = vec![false; self.nodes.len()];
        let mut waiting = Vec::new();
        if !self.nodes.is_empty() {
            waiting.push(Line { node: 0, depth: 0, lead: String::new(), below: String::new() });
        }
        while let Some(Line { node, depth, lead, below }) = waiting.pop() {
            let again = unfolded[node] && !self.below[node].is_empty();
            let mark = if again { " (*)" } else { "" };
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{lead}{}{mark}", label(&self.nodes[node], style));
            if again || depth >= self.deepest {
                continue;
            }
            unfolded[node] = true;
            let last = self.below[node].len().saturating_sub(1);
            let lines = self.below[node].iter().enumerate().map(|(i, node)| {
                let (branch, trunk) =
                    if i == last { ("└── ", "    ") } else { ("├── ", "│   ") };
                let (lead, below) = (format!("{below}{branch}"), format!("{below}{trunk}"));
                Line { node: *node, depth: depth + 1, lead, below }
            });
            let lines: Vec<_> = lines.collect();
            waiting.extend(lines.into_iter().rev());
        }
        text
    }
}

/// An entity as it stands in a text.
pub(super) fn label(node: &Node, style: Style) -> String {
    let label = node.label();
    let label = printable(&label);
    match node.lifecycle {
        "active" => label.into_owned(),
        "deprecated" => style.paint(Paint::Careful, label),
        _ => style.paint(Paint::Dim, label),
    }
}
