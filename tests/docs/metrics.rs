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
                if *first == "self.name" {
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

/// Metrics that are defined as constants: `Metric::counter("name", "help").labels(&[…])`.
fn defined(sources: &[Source]) -> BTreeMap<String, Metric> {
    let mut found = BTreeMap::new();
    for Source { text, .. } in sources {
        for kind in KINDS {
            let opening = format!("Metric::{kind}(");
            for (at, _) in text.match_indices(&opening) {
                let rest = &text[at + opening.len()..];
                let definition = rest.split(";\n").next().unwrap_or_default();
                let call = scan::arguments(rest);
                let [name, help] = call.as_slice() else { continue };
                let Some(name) = scan::string(name, text) else { continue };
                let labels = scan::calls(definition, "label(").into_iter().filter_map(|label| {
                    let [name, values] = label.as_slice() else { return None };
                    Some(format!("{}`: {}", scan::literal(name)?, scan::literal(values)?))
                });
                let help = scan::literal(help).unwrap_or_default();
                found.insert(name, Metric { kind, labels: labels.collect(), help });
            }
        }
    }
    found
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
