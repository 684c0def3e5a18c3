//! SVG: a shape for each kind, edges to dependencies, and titles for tooltips and screen readers.
//!
//! The file has no scripts, fonts or external references.

use std::fmt::Write as _;

use registry_core::Kind;

use super::{
    Diagram, DiagramNode, Mark,
    layout::{Layout, Rect, layout},
};

/// Maximum length of a drawn label. Titles are complete.
const LABEL: usize = 56;
/// Width of a character in the font of the labels, in tenths of a pixel.
const CHARACTER: i64 = 73;

const STYLE: &str = "\
text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1c1c1c;text-anchor:middle;dominant-baseline:central}\
.line{fill:none;stroke:#7a7a7a;stroke-width:1.2}\
.box{stroke-width:1.2}\
.schema .box{fill:#e7f0fd;stroke:#2b5fa8}\
.server .box{fill:#f0e9fb;stroke:#6a3fa0}\
.tool .box{fill:#e6f5ea;stroke:#1f7a3d}\
.agent .box{fill:#fdf0e0;stroke:#a85a12}\
.policy .box{fill:#fbe6ec;stroke:#a02c5a}\
.unknown .box{fill:#fff;stroke:#1c1c1c}\
.deprecated .box{stroke-dasharray:6 3}\
.retired .box{stroke-dasharray:2 3}\
.retired text{fill:#6b6b6b;text-decoration:line-through}\
.root .box{stroke-width:3}\
.breaks .box{stroke:#c01c28;stroke-width:3}";

pub(super) fn write(diagram: &Diagram) -> String {
    let labels: Vec<String> = diagram.nodes.iter().map(|shape| cut(&shape.label())).collect();
    let width = |label: &String| {
        i64::try_from(label.chars().count()).unwrap_or(i64::MAX / CHARACTER) * CHARACTER / 10 + 32
    };
    let widths: Vec<i64> = labels.iter().map(width).collect();
    let Layout { boxes, edges, width, height } = layout(&widths, &diagram.edges);
    let mut text = head(diagram, width, height);
    for ((from, to), corners) in diagram.edges.iter().zip(&edges) {
        let (from, to) = (&diagram.nodes[*from].name, &diagram.nodes[*to].name);
        let corners: Vec<_> = corners.iter().map(|(x, y)| format!("{x},{y}")).collect();
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "<polyline class=\"line\" points=\"{}\" marker-end=\"url(#tip)\"><title>{} depends on {}</title></polyline>",
            corners.join(" "),
            escaped(from),
            escaped(to),
        );
    }
    for ((shape, rect), label) in diagram.nodes.iter().zip(&boxes).zip(&labels) {
        text += &draw(shape, *rect, label);
    }
    text + "</svg>\n"
}

fn head(diagram: &Diagram, width: i64, height: i64) -> String {
    let title = escaped(&diagram.title);
    let (entities, lines) = (diagram.nodes.len(), diagram.edges.len());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{title}</title>\n\
         <desc id=\"desc\">{entities} entities, {lines} direct dependencies; edges point to dependencies</desc>\n\
         <style>{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 8,4 0,8z\" fill=\"#7a7a7a\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    )
}

fn draw(shape: &DiagramNode, rect: Rect, label: &str) -> String {
    let mark = match shape.mark {
        Mark::Plain => "",
        Mark::Root => " root",
        Mark::Breaks => " breaks",
    };
    let (class, state) = (shape.kind(), escaped(&shape.lifecycle));
    let (title, label) = (escaped(&shape.label()), escaped(label));
    let (x, y) = (rect.x + rect.width / 2, rect.y + rect.height / 2);
    format!(
        "<g class=\"{class} {state}{mark}\"><title>{title}</title>{}<text x=\"{x}\" y=\"{y}\">{label}</text></g>\n",
        outline(shape.kind, rect)
    )
}

/// The outline of each kind: sheet, barred box, rounded box, pill, hexagon.
fn outline(kind: Option<Kind>, rect: Rect) -> String {
    let Rect { x, y, width, height } = rect;
    let (right, bottom) = (x + width, y + height);
    let rectangle = |radius: i64| {
        format!(
            "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
        )
    };
    match kind {
        Some(Kind::Schema) => format!(
            "<path class=\"box\" d=\"M{x},{y} H{} L{right},{} V{bottom} H{x}z\"/>",
            right - 9,
            y + 9
        ),
        Some(Kind::Server) => {
            let (first, second) = (x + 6, right - 6);
            format!(
                "{}<path class=\"box\" d=\"M{first},{y} V{bottom} M{second},{y} V{bottom}\"/>",
                rectangle(0)
            )
        }
        Some(Kind::Tool) => rectangle(6),
        Some(Kind::Agent) => rectangle(height / 2),
        Some(Kind::Policy) => {
            let (first, second, middle) = (x + 9, right - 9, y + height / 2);
            format!(
                "<path class=\"box\" d=\"M{first},{y} H{second} L{right},{middle} L{second},{bottom} \
                 H{first} L{x},{middle}z\"/>"
            )
        }
        None => rectangle(0),
    }
}

fn cut(label: &str) -> String {
    if label.chars().count() <= LABEL {
        return label.to_owned();
    }
    label.chars().take(LABEL - 1).chain(['…']).collect()
}

/// Escaped XML text. Characters that XML forbids are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
