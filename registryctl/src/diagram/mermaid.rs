//! Mermaid flowcharts, which Markdown viewers display.

use std::fmt::Write as _;

use registry_core::Kind;

use super::{Diagram, DiagramNode, Mark};

const CLASSES: &str = "\
  classDef schema fill:#e7f0fd,stroke:#2b5fa8,color:#1c1c1c
  classDef server fill:#f0e9fb,stroke:#6a3fa0,color:#1c1c1c
  classDef tool fill:#e6f5ea,stroke:#1f7a3d,color:#1c1c1c
  classDef agent fill:#fdf0e0,stroke:#a85a12,color:#1c1c1c
  classDef policy fill:#fbe6ec,stroke:#a02c5a,color:#1c1c1c
  classDef deprecated stroke-dasharray:6 3
  classDef retired stroke-dasharray:2 3,color:#6b6b6b
  classDef root stroke-width:3px
  classDef breaks stroke:#c01c28,stroke-width:3px
";

pub(super) fn write(diagram: &Diagram) -> String {
    let title = serde_json::Value::from(diagram.title.as_str());
    let mut text = format!("---\ntitle: {title}\n---\nflowchart LR\n");
    for (i, shape) in diagram.nodes.iter().enumerate() {
        let label = escaped(&shape.label());
        // Quotes prevent that `end` is parsed as a keyword.
        let (begin, end) = match shape.kind {
            Some(Kind::Schema) => ("[/", "/]"),
            Some(Kind::Server) => ("[[", "]]"),
            Some(Kind::Tool) => ("(", ")"),
            Some(Kind::Agent) => ("([", "])"),
            Some(Kind::Policy) => ("{{", "}}"),
            None => ("[", "]"),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  n{i}{begin}\"{label}\"{end}");
    }
    for (from, to) in &diagram.edges {
        let _ = writeln!(text, "  n{from} --> n{to}");
    }
    text += CLASSES;
    for (i, shape) in diagram.nodes.iter().enumerate() {
        let classes = classes(shape);
        for class in classes {
            let _ = writeln!(text, "  class n{i} {class}");
        }
    }
    text
}

fn classes(shape: &DiagramNode) -> impl Iterator<Item = &str> {
    let kind = shape.kind.map(Kind::as_str);
    let lifecycle = Some(shape.lifecycle.as_str());
    let lifecycle = lifecycle.filter(|state| matches!(*state, "deprecated" | "retired"));
    let mark = match shape.mark {
        Mark::Plain => None,
        Mark::Root => Some("root"),
        Mark::Breaks => Some("breaks"),
    };
    [kind, lifecycle, mark].into_iter().flatten()
}

/// An escaped label. Mermaid would interpret entity codes, HTML and Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_alphanumeric() || " /@.-+_()".contains(c) => escaped.push(c),
            c if c.is_control() => escaped.push(' '),
            c => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
        }
    }
    escaped
}
