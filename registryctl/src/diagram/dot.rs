//! Graphviz: `registryctl tree … --output dot | dot -Tpng`.

use std::fmt::Write as _;

use registry_core::Kind;

use super::{Diagram, DiagramNode, Mark};

pub(super) fn write(diagram: &Diagram) -> String {
    let mut text = format!(
        "digraph registry {{\n  label={};\n  rankdir=LR;\n  node [fontname=\"monospace\", style=filled];\n",
        quoted(&diagram.title)
    );
    for (i, shape) in diagram.nodes.iter().enumerate() {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  n{i} [label={}, {}];", quoted(&shape.label()), look(shape));
    }
    for (from, to) in &diagram.edges {
        let _ = writeln!(text, "  n{from} -> n{to};");
    }
    text + "}\n"
}

fn look(shape: &DiagramNode) -> String {
    let (form, color) = match shape.kind {
        Some(Kind::Schema) => ("note", "#e7f0fd"),
        Some(Kind::Server) => ("box3d", "#f0e9fb"),
        Some(Kind::Tool) => ("box", "#e6f5ea"),
        Some(Kind::Agent) => ("ellipse", "#fdf0e0"),
        Some(Kind::Policy) => ("hexagon", "#fbe6ec"),
        None => ("plain", "#ffffff"),
    };
    let style = match (shape.kind, shape.lifecycle.as_str()) {
        (Some(Kind::Tool), "active") => ", style=\"filled,rounded\"",
        (_, "active") => "",
        (_, "deprecated") => ", style=\"filled,dashed\"",
        _ => ", style=\"filled,dotted\"",
    };
    let mark = match shape.mark {
        Mark::Plain => "",
        Mark::Root => ", penwidth=3",
        Mark::Breaks => ", penwidth=3, color=\"#c01c28\"",
    };
    format!("shape={form}, fillcolor=\"{color}\"{style}{mark}")
}

/// A quoted DOT string. Backslashes are escaped: `\N` is the name of the node.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
    format!("\"{escaped}\"")
}
