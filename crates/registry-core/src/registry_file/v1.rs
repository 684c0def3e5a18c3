//! Version 1 of the registry file: tools without versions, dependencies or servers.
//!
//! Missing information is derived: tools and targets get version 1.0.0, each target becomes a
//! server that provides the tools referring to it, and a composition depends on the tools that it
//! uses. Each derivation is a warning with the version 2 notation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::read::{Builder, entities};
use crate::{
    decode::{Fields, Problems},
    diagnostic::{Code, Diagnostic},
    kind::Kind,
    spec::{Composition, Target},
};

/// The version of everything without one.
const VERSION: &str = "1.0.0";

/// Whether a file without `schemaVersion` has version 1: only tools, without members of version 2.
pub(super) fn looks_like(fields: &Fields<'_>) -> bool {
    let newer = ["schemas", "servers", "agents"].into_iter().any(|name| fields.get(name).is_some());
    let tools = fields.get("tools").and_then(Value::as_array);
    !newer && tools.is_some_and(|tools| tools.iter().all(is_old))
}

fn is_old(tool: &Value) -> bool {
    let source = tool.get("source");
    tool.get("depends").is_none() && source.is_none_or(|s| s.get("serverVersion").is_none())
}

pub(super) fn read(builder: &mut Builder, problems: &Problems, fields: Fields<'_>) {
    builder.warn(warning(
        "/schemaVersion",
        "this is a registry file of version 1",
        "write \"schemaVersion\": \"2.0\" and give each tool a version; `registryctl import registry FILE --out NEW.json` converts the file",
    ));
    let tools = entities(problems, &fields, "tools");
    let versions = Versions::new(tools);
    Targets::new(tools).propose(builder, &versions);
    for (i, tool) in tools.iter().enumerate() {
        let pointer = format!("/tools/{i}");
        let migrated = match tool {
            Value::Object(map) => Value::Object(migrated(builder, map, &versions, &pointer)),
            other => other.clone(),
        };
        builder.entity(Kind::Tool, &migrated, &pointer);
    }
    fields.finish();
}

fn migrated(
    builder: &mut Builder,
    tool: &Map<String, Value>,
    versions: &Versions<'_>,
    pointer: &str,
) -> Map<String, Value> {
    let mut tool = tool.clone();
    // The original v1 format nests `source` and `spec` one level deeper.
    if let Some(Value::Object(implementation)) = tool.remove("implementation") {
        tool.extend(implementation);
    }
    if !tool.contains_key("version") {
        let message = format!("the tool has no version; {VERSION} is assumed");
        builder.warn(warning(pointer, message, format!("add \"version\": \"{VERSION}\"")));
        tool.insert("version".to_owned(), VERSION.into());
    }
    if let Some(Value::Object(source)) = tool.get_mut("source") {
        migrate_source(builder, source, pointer);
    }
    if let Some(spec) = tool.get("spec") {
        let depends = depends(spec, versions);
        if !depends.is_empty() && !tool.contains_key("depends") {
            let help = format!("add \"depends\": {}", Value::from(depends.clone()));
            builder.warn(warning(pointer, "the composition declares no dependencies", help));
            tool.insert("depends".to_owned(), depends.into());
        }
    }
    tool
}

fn migrate_source(builder: &mut Builder, source: &mut Map<String, Value>, pointer: &str) {
    // If both are present, the tool parser checks that they agree.
    if !source.contains_key("server")
        && let Some(target) = source.remove("target")
    {
        let message = format!("`target` is called `server` in version 2: {target}");
        let help = format!(
            "write \"server\": {target}, \"serverVersion\": \"{VERSION}\", and register the server"
        );
        builder.warn(warning(format!("{pointer}/source/target"), message, help));
        source.insert("server".to_owned(), target);
    }
    source.entry("serverVersion").or_insert_with(|| VERSION.into());
}

/// The tools and agents that a composition uses, as `depends` entries.
fn depends(spec: &Value, versions: &Versions<'_>) -> Vec<Value> {
    let uses = Composition::parse(spec).map(|composition| composition.uses).unwrap_or_default();
    let targets: BTreeSet<_> = uses.into_iter().map(|found| found.target).collect();
    let dependency = |target: Target| match target {
        Target::Tool(name) => {
            let version = versions.find(name.as_str());
            json!({ "name": name.as_str(), "type": "tool", "version": version })
        }
        Target::Agent { name, skill } => json!({
            "type": "agent", "name": name.as_str(), "version": VERSION, "skill": skill,
        }),
    };
    targets.into_iter().map(dependency).collect()
}

/// The versions of the file's tools by name. The first of equal names counts.
struct Versions<'a>(HashMap<&'a str, &'a str>);

impl<'a> Versions<'a> {
    fn new(tools: &'a [Value]) -> Self {
        let mut versions = HashMap::new();
        for tool in tools {
            if let Some(name) = text(tool, "name") {
                versions.entry(name).or_insert(text(tool, "version").unwrap_or(VERSION));
            }
        }
        Self(versions)
    }

    fn find(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or(VERSION)
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// The targets of a file with their upstream tools and the index of the first use.
struct Targets<'a>(BTreeMap<&'a str, BTreeMap<&'a str, usize>>);

impl<'a> Targets<'a> {
    fn new(tools: &'a [Value]) -> Self {
        let mut used: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (i, tool) in tools.iter().enumerate() {
            let holder = tool.get("implementation").unwrap_or(tool);
            let Some(source) = holder.get("source") else { continue };
            let target = text(source, "target").or_else(|| text(source, "server"));
            if let (Some(target), Some(upstream)) = (target, text(source, "tool")) {
                used.entry(target).or_default().entry(upstream).or_insert(i);
            }
        }
        Self(used)
    }

    /// Proposes a server for each target, and a plain tool for each upstream tool that the file
    /// uses only under another name.
    fn propose(&self, builder: &mut Builder, versions: &Versions<'a>) {
        let mut named: BTreeSet<&str> = versions.0.keys().copied().collect();
        for (target, upstream) in &self.0 {
            let first = upstream.values().min().copied().unwrap_or_default();
            let provides: Vec<Value> = upstream
                .keys()
                .map(|tool| json!({ "tool": tool, "version": versions.find(tool) }))
                .collect();
            let server = json!({ "name": target, "version": VERSION, "provides": provides });
            let message = format!("the target `{target}` is not a registered server");
            let help = format!("add to `servers`: {server}");
            builder.warn(warning(format!("/tools/{first}/source"), message, help));
            builder.entity(Kind::Server, &server, &format!("/tools/{first}/source"));
            for (tool, i) in upstream {
                if named.insert(tool) {
                    let source =
                        json!({ "server": target, "serverVersion": VERSION, "tool": tool });
                    let plain = json!({ "name": tool, "version": VERSION, "source": source });
                    builder.entity(Kind::Tool, &plain, &format!("/tools/{i}/source"));
                }
            }
        }
    }
}

fn warning(
    pointer: impl Into<String>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Diagnostic {
    Diagnostic::warning(Code::DocumentInvalid, pointer, message).with_help(help)
}
