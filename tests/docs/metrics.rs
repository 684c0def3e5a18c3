//! The metrics of both services.

use std::collections::BTreeMap;

use crate::scan::{self, Source};

/// A metric.
#[derive(Default)]
struct Metric {
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];

/// Described metrics with the labels of their uses.
fn described(sources: &[Source]) -> BTreeMap<String, Metric> {
    let mut found = BTreeMap::new();
    for Source { path, text } in sources {
        for kind in KINDS {
            for call in scan::calls(text, &format!("describe_{kind}!(")) {
                let (Some(first), Some(last)) = (call.first(), call.last()) else { continue };
                // The description of a definition that `defined` reads.
                if first.starts_with('*')
                    || first.strip_suffix("name").is_some_and(|rest| rest.ends_with('.'))
                {
                    continue;
                }
                let name = scan::string(first, text);
                let name = name.unwrap_or_else(|| panic!("{path}: the name {first} is unclear"));
                let help = scan::literal(last);
                let help = help.unwrap_or_else(|| panic!("{path}: {name} has no help"));
                found.insert(name, Metric { kind, help, ..Metric::default() });
            }
        }
    }
    for Source { text, .. } in sources {
        for kind in KINDS {
            for call in scan::calls(text, &format!("{kind}!(")) {
                let Some((name, labels)) = call.split_first() else { continue };
                let Some(name) = scan::string(name, text) else { continue };
                let Some(metric) = found.get_mut(&name) else { continue };
                let labels = labels.iter().filter_map(|label| label.split_once("=>"));
                for label in labels.filter_map(|(name, _)| scan::literal(name)) {
                    if !metric.labels.contains(&label) {
                        metric.labels.push(label);
                    }
                }
            }
        }
    }
    found
}

/// Metrics that are defined in tables: `counter("name", &[labels], "help")`, or `counter("name",
/// "help").labels(&[labels])`.
fn defined(sources: &[Source]) -> BTreeMap<String, Metric> {
    let mut found = BTreeMap::new();
    for Source { text, .. } in sources {
        for kind in KINDS {
            let opening = format!("{kind}(");
            for (at, _) in text.match_indices(&opening) {
                let rest = &text[at + opening.len()..];
                if !rest.trim_start().starts_with('"') {
                    continue;
                }
                let call = scan::arguments(rest);
                let (name, labels, help) = match call.as_slice() {
                    [name, help] => {
                        let definition = rest.split(";\n").next().unwrap_or_default();
                        let labels = definition.split_once(".labels(").map(|(_, labels)| labels);
                        (name, labels.unwrap_or_default(), help)
                    }
                    [name, labels, help] => (name, *labels, help),
                    _ => continue,
                };
                let (Some(name), Some(help)) = (scan::literal(name), scan::literal(help)) else {
                    continue;
                };
                found.insert(name, Metric { kind, labels: labels_in(labels, text), help });
            }
        }
    }
    found
}

/// The labels of a list such as `&[TOOL, label("outcome", "ok, failed")]`.
fn labels_in(list: &str, text: &str) -> Vec<String> {
    let Some((_, list)) = list.split_once('[') else { return Vec::new() };
    let label = |item: &str| {
        let constant = format!("const {item}: MetricLabel =");
        let item = text.split_once(&constant).map_or(item, |(_, rest)| rest);
        let (_, call) = item.split_once("label(")?;
        match scan::arguments(call).as_slice() {
            [name, values] => {
                Some(format!("{}`: {}", scan::literal(name)?, scan::literal(values)?))
            }
            _ => None,
        }
    };
    scan::arguments(list).into_iter().filter_map(label).collect()
}

/// Generates the page of a program.
fn check(page: &str, title: &str, sources: &[Source]) {
    let mut metrics = described(sources);
    metrics.extend(defined(sources));
    assert!(metrics.len() > 20, "{title}: only {} metrics are found", metrics.len());
    let rows: Vec<_> = metrics
        .into_iter()
        .map(|(name, Metric { kind, labels, help })| {
            let label = |label: String| {
                if label.contains('`') { format!("`{label}") } else { format!("`{label}`") }
            };
            let labels: Vec<_> = labels.into_iter().map(label).collect();
            [format!("`{name}`"), kind.to_owned(), labels.join("; "), help]
        })
        .collect();
    let table = reference_pages::table(["metric", "type", "labels", "meaning"], &rows);
    let body = format!(
        "[Monitor](../operate/monitor.md) has the addresses and the alerts. A counter appears with \
         its first event.\n\n{table}"
    );
    reference_pages::check(page, title, &body);
}

#[test]
fn reference_of_registry_metrics_is_current() {
    let sources = scan::sources(&["registry-server/src"]);
    check("registry-server-metrics.md", "Metrics of registry-server", &sources);
}

#[test]
fn reference_of_gateway_metrics_is_current() {
    let sources = scan::sources(&[
        "gateway-agent/src",
        "crates/gateway-compose/src",
        "crates/gateway-upstream/src",
    ]);
    check("gateway-agent-metrics.md", "Metrics of gateway-agent", &sources);
}
