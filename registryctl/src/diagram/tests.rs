//! Diagrams of a small graph and of hostile names.

use super::*;

fn small() -> Diagram {
    let mut diagram = Diagram::new("dependents of \"In\" <1>".to_owned());
    diagram.add_node("schema/In@1.0.0", "active", Mark::Root);
    diagram.add_node("tool/end@1.0.0", "deprecated", Mark::Breaks);
    diagram.add_node("agent/team/a_b@1.0.0-rc.1+x", "retired", Mark::Plain);
    diagram.add_edge("tool/end@1.0.0", "schema/In@1.0.0");
    diagram.add_edge("tool/end@1.0.0", "server/s@1.0.0");
    diagram.add_edge("agent/team/a_b@1.0.0-rc.1+x", "tool/end@1.0.0");
    diagram
}

fn hostile() -> Diagram {
    let mut diagram = Diagram::new("\"]]>--><script>\u{0}\n\\".to_owned());
    let name = "tool/\"]);<&'>\\N\n`$(x)`%%{init}%% #quot;--!>\u{1}\u{ffff}";
    diagram.add_node(name, "\"><odd", Mark::Root);
    diagram.add_edge(name, "gadget/\u{202e}]]>");
    diagram
}

#[test]
fn dot_quotes_labels_and_styles_kinds() {
    assert_eq!(
        small().write(Output::Dot),
        r##"digraph registry {
  label="dependents of \"In\" <1>";
  rankdir=LR;
  node [fontname="monospace", style=filled];
  n0 [label="schema/In@1.0.0", shape=note, fillcolor="#e7f0fd", penwidth=3];
  n1 [label="tool/end@1.0.0 (deprecated)", shape=box, fillcolor="#e6f5ea", style="filled,dashed", penwidth=3, color="#c01c28"];
  n2 [label="agent/team/a_b@1.0.0-rc.1+x (retired)", shape=ellipse, fillcolor="#fdf0e0", style="filled,dotted"];
  n3 [label="server/s@1.0.0", shape=box3d, fillcolor="#f0e9fb"];
  n1 -> n0;
  n1 -> n3;
  n2 -> n1;
}
"##
    );
}

#[test]
fn mermaid_quotes_labels_and_assigns_classes() {
    let text = small().write(Output::Mermaid);
    let expected = r#"---
title: "dependents of \"In\" <1>"
---
flowchart LR
  n0[/"schema/In@1.0.0"/]
  n1("tool/end@1.0.0 (deprecated)")
  n2(["agent/team/a_b@1.0.0-rc.1+x (retired)"])
  n3[["server/s@1.0.0"]]
  n1 --> n0
  n1 --> n3
  n2 --> n1
"#;
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("  class n2 agent\n  class n2 retired\n  class n3 server\n"), "{text}");
}

#[test]
fn svg_is_valid_xml_with_titles() {
    let text = small().write(Output::Svg);
    let document = roxmltree::Document::parse(&text).unwrap();
    let titles: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")))
        .filter_map(|node| node.text())
        .collect();
    assert_eq!(
        titles,
        [
            "dependents of \"In\" <1>",
            "tool/end@1.0.0 depends on schema/In@1.0.0",
            "tool/end@1.0.0 depends on server/s@1.0.0",
            "agent/team/a_b@1.0.0-rc.1+x depends on tool/end@1.0.0",
            "schema/In@1.0.0",
            "tool/end@1.0.0 (deprecated)",
            "agent/team/a_b@1.0.0-rc.1+x (retired)",
            "server/s@1.0.0",
        ]
    );
    let classes: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "g")))
        .filter_map(|node| node.attribute("class"))
        .collect();
    let expected =
        ["schema active root", "tool deprecated breaks", "agent retired", "server active"];
    assert_eq!(classes, expected);
    assert_eq!(text, small().write(Output::Svg), "equal graphs have equal diagrams");
}

#[test]
fn hostile_names_are_escaped() {
    let svg = hostile().write(Output::Svg);
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(!document.descendants().any(|node| node.tag_name().name() == "script"));
    let dot = hostile().write(Output::Dot);
    for line in dot.lines().filter(|line| line.contains("label=")) {
        let quotes = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
        assert!(quotes.is_multiple_of(2), "{line}");
    }
    let mermaid = hostile().write(Output::Mermaid);
    let label = mermaid.lines().find(|line| line.contains("n0(")).unwrap();
    assert_eq!(label.matches('"').count(), 2, "{label}");
    assert!(!label.contains(['<', '`', '%', '\\']), "{label}");
}

#[test]
fn long_labels_are_cut_and_titles_complete() {
    let mut diagram = Diagram::new(String::new());
    let name = format!("tool/{}@1.0.0", "x".repeat(128));
    diagram.add_node(&name, "active", Mark::Plain);
    let svg = diagram.write(Output::Svg);
    assert!(svg.contains(&format!("<title>{name}</title>")), "{svg}");
    assert!(svg.contains("x…</text>") && !svg.contains("@1.0.0</text>"), "{svg}");
}

#[test]
fn empty_diagrams_are_valid() {
    let empty = Diagram::new("empty".to_owned());
    roxmltree::Document::parse(&empty.write(Output::Svg)).unwrap();
    assert!(empty.write(Output::Dot).ends_with("}\n"));
}
