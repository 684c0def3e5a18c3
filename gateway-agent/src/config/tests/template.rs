//! The template of `config init` contains every option of the parser in valid form.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::config::{TEMPLATE, yaml};

/// The template with every option set. `alternatives` also sets alternatives.
pub(super) fn set(alternatives: bool) -> String {
    let is_option = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
    let set = |line: &str| {
        let nested = line.starts_with("#  ");
        if !is_option(line) && !nested {
            return line.to_owned();
        }
        let option = &line[1..];
        match option.split_once('#') {
            Some((indent, rest)) if alternatives && indent.trim().is_empty() => {
                format!("{indent}{rest}")
            }
            _ => option.to_owned(),
        }
    };
    TEMPLATE.lines().map(set).collect::<Vec<_>>().join("\n")
}

pub(super) fn problems(text: &str) -> Vec<Problem> {
    let parsed = Config::parse(Path::new("gateway.yaml"), text, &Args::default());
    parsed.err().map(|invalid| invalid.problems).unwrap_or_default()
}

/// Adds an unknown field to every mapping, so that the parser reports the fields it knows.
fn with_unknown_fields(node: &yaml::Node) -> String {
    match &node.value {
        yaml::Value::Map(fields) => {
            let fields = fields
                .iter()
                .map(|(name, node)| format!("{}: {}", quoted(name), with_unknown_fields(node)));
            let fields: Vec<_> = fields.chain(["unknownField: 1".to_owned()]).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        yaml::Value::List(items) => {
            let items: Vec<_> = items.iter().map(with_unknown_fields).collect();
            format!("[{}]", items.join(", "))
        }
        yaml::Value::Text(text) => quoted(text),
        yaml::Value::Integer(number) => number.clone(),
        yaml::Value::Float(number) => format!("{number:?}"),
        yaml::Value::Bool(value) => value.to_string(),
        yaml::Value::Null => "~".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The field names at each path. List items are merged.
fn fields(node: &yaml::Node, path: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    match &node.value {
        yaml::Value::Map(members) => {
            for (name, node) in members {
                found.entry(path.to_owned()).or_default().insert(name.clone());
                fields(node, &format!("{path}.{name}"), found);
            }
        }
        yaml::Value::List(items) => {
            for item in items {
                fields(item, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

/// A path without list indexes.
fn without_numbers(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    let without = parts.fold(first, |path, part| {
        path + "[" + part.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    format!(".{without}").trim_end_matches(".unknownField").to_owned()
}

/// The fields that the parser knows in each mapping of the tree.
pub(super) fn known_fields(tree: &yaml::Node) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for problem in problems(&with_unknown_fields(tree)) {
        let Some(names) = problem.message.strip_prefix("unknown field; expected one of ") else {
            continue;
        };
        // An alternative can exclude other fields of the mapping.
        if problem.field.ends_with("unknownField") {
            let names = names.split(", ").filter(|name| !name.is_empty());
            found.push((without_numbers(&problem.field), names.map(str::to_owned).collect()));
        }
    }
    found
}

#[test]
fn template_parses_with_registry() {
    let registry = Some("grpc://127.0.0.1:7070".to_owned());
    let args = Args { registry, ..Args::default() };
    let config = Config::parse(Path::new("gateway.yaml"), TEMPLATE, &args).unwrap();
    assert_eq!(config.listen.port(), 7080);
}

#[test]
fn template_parses_with_every_option_set() {
    // The example files do not exist (ENOENT).
    let absent = std::io::Error::from_raw_os_error(2).to_string();
    let is_missing = |problem: &Problem| {
        problem.message.contains(&absent) || problem.message.contains("/etc/gateway-agent/")
    };
    let found = problems(&set(false));
    let found: Vec<_> = found.iter().filter(|problem| !is_missing(problem)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn template_contains_every_option() {
    let tree = yaml::parse(&set(true)).expect("YAML");
    let mut written = BTreeMap::new();
    fields(&tree, "", &mut written);
    let mut known = 0;
    let mut missing = Vec::new();
    for (path, names) in known_fields(&tree) {
        // The introduction of the template describes secrets.
        if names == ["prefix", "file", "env"] {
            continue;
        }
        for name in names {
            known += 1;
            if !written.get(&path).is_some_and(|written| written.contains(&name)) {
                missing.push(format!("{path}.{name}"));
            }
        }
    }
    assert!(known > 100, "the parser says what it knows in other words: {known}");
    assert!(missing.is_empty(), "not in template.yaml: {missing:#?}");
}
