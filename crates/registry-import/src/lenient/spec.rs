//! Older forms of compositions: operations without their wrapper, steps that name a server, plain
//! objects as inputs and outputs, and unsupported members.
//!
//! An unsupported member whose loss would change the behavior stays, with a hint for review.

use registry_core::{
    kind::Kind,
    limits,
    spec::{PATTERNS, plain_literal},
};
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use super::{
    LenientFile,
    callee::{self, Call, CalleeMatch, Callees, Unclear, Wanted},
    existing,
    mapping::shape_mappings,
};
use crate::{Repairs, names, origins::Origins, repair::quoted};

/// The state of shaping one composition.
struct Shaper<'a> {
    callees: &'a mut Callees,
    /// The pointers point into the entry.
    repairs: Repairs,
    origins: &'a mut Origins,
    /// The declared dependencies of the composition, and those that its steps add.
    depends: Vec<Value>,
    /// Pointers into the entry with problems that `repairs` explains.
    explained: Vec<String>,
}

impl LenientFile<'_> {
    /// Converts every composition to the current grammar. Servers and versions are known by now.
    pub(super) fn shape_specs(&mut self) {
        let mut callees = self.callees();
        for tool in self.entries.entry(Kind::Tool).or_default() {
            let depends = tool.map.get("depends").and_then(Value::as_array).cloned();
            let mut shaper = Shaper {
                callees: &mut callees,
                repairs: Repairs::default(),
                origins: &mut tool.origins,
                depends: depends.unwrap_or_default(),
                explained: Vec::new(),
            };
            if let Some(spec) = tool.map.get_mut("spec") {
                shaper.spec(spec, "/spec", 0);
            }
            if let Some(transform) = tool.map.get_mut("outputTransform") {
                shape_mappings(transform, "/outputTransform", &mut shaper.repairs);
            }
            let Shaper { repairs, depends, explained, .. } = shaper;
            if !depends.is_empty() && tool.map.get("depends").is_none_or(Value::is_array) {
                tool.map.insert("depends".to_owned(), depends.into());
            }
            let place = |at: &str| existing(self.file, tool.origins.origin(at));
            let explained = explained.iter().map(String::as_str);
            self.explained.extend(repairs.needed_at().chain(explained).map(place));
            self.repairs.all_from(repairs, place);
            for (_, at) in &mut callees.added {
                if at.starts_with("/spec") {
                    *at = existing(self.file, tool.origins.origin(at));
                }
            }
        }
        for (entry, at) in callees.added {
            let source = &entry["source"];
            let (name, server, tool) = (&entry["name"], &source["server"], &source["tool"]);
            let what = format!("no tool of the file is {tool} of the server {server}");
            self.repairs.made(&at, what, format!("the tool {name} was added for it"));
            self.add(Kind::Tool, &entry, &at);
        }
    }
}

impl Shaper<'_> {
    fn spec(&mut self, spec: &mut Value, at: &str, depth: usize) {
        let Some(map) = spec.as_object_mut().filter(|_| depth <= limits::SPEC_DEPTH) else {
            return;
        };
        let Some(name) = pattern_of(map) else { return };
        let at = pointer_join(at, name);
        let body = &mut map[name];
        match name {
            "pipeline" => self.steps(body, &at, (&["operation"], depth)),
            "saga" => self.saga(body, &at, depth),
            "scatterGather" => self.scatter(body, &at, depth),
            "schemaMap" => shape_mappings(body, &at, &mut self.repairs),
            "filter" => {}
            _ => {
                for member in ["inner", "fallback"] {
                    self.operation_in(body, member, (&at, depth));
                }
            }
        }
        if name == "pipeline" {
            self.pipeline_output(&mut map[name], &at);
        }
        self.store(&mut map[name], (name, &at));
    }

    /// `store` names a configuration entry of the older gateway.
    fn store(&mut self, body: &mut Value, (pattern, at): (&str, &str)) {
        let keeps = ["cache", "idempotent", "circuitBreaker", "saga"].contains(&pattern);
        if keeps && body.as_object_mut().is_some_and(|body| body.remove("store").is_some()) {
            let what = format!("`store` of a `{pattern}`");
            let how = "it was left out: the gateway keeps this state itself";
            self.repairs.made(format!("{at}/store"), what, how);
        }
    }

    fn steps(&mut self, body: &mut Value, at: &str, (operations, depth): (&[&str], usize)) {
        let steps = body.get_mut("steps").and_then(Value::as_array_mut);
        for (i, step) in steps.into_iter().flatten().enumerate() {
            let at = format!("{at}/steps/{i}");
            for operation in operations {
                self.operation_in(step, operation, (&at, depth));
            }
            for binding in ["input", "compensateInput"] {
                self.binding_in(step, binding, &at);
            }
            if step.get("condition").is_some() {
                let what = "a step with a `condition`";
                let how = "steps always run, so it is left for you: keep the step in a tool that decides \
                           by itself, or filter the list that a `mapEach` works on";
                self.repairs.needed(format!("{at}/condition"), what, how);
            }
        }
    }

    fn saga(&mut self, body: &mut Value, at: &str, depth: usize) {
        self.steps(body, at, (&["action", "compensate"], depth));
        self.binding_in(body, "output", at);
        let Some(saga) = body.as_object_mut() else { return };
        let milliseconds = saga.get("timeout").and_then(milliseconds);
        if let Some(milliseconds) = milliseconds.filter(|_| !saga.contains_key("timeoutMs")) {
            saga.remove("timeout");
            saga.insert("timeoutMs".to_owned(), milliseconds.into());
            self.origins
                .moved(format!("{at}/timeoutMs"), self.origins.origin(&format!("{at}/timeout")));
            let how = format!("it is `timeoutMs`: {milliseconds}");
            self.repairs.made(format!("{at}/timeoutMs"), "`timeout` of a `saga`", how);
        }
        let steps = saga.get_mut("steps").and_then(Value::as_array_mut);
        for (i, step) in steps.into_iter().flatten().enumerate() {
            let Some(step) = step.as_object_mut().filter(|step| !step.contains_key("name")) else {
                continue;
            };
            if let Some(id) = step.get("id").cloned() {
                let at = format!("{at}/steps/{i}");
                self.repairs.made(at, "a step of a `saga` without a name", "it is named by its id");
                step.insert("name".to_owned(), id);
            }
        }
    }

    fn scatter(&mut self, body: &mut Value, at: &str, depth: usize) {
        let Some(scatter) = body.as_object_mut() else { return };
        if !scatter.contains_key("targets")
            && let Some(branches) = scatter.remove("branches")
        {
            let from = self.origins.origin(&format!("{at}/branches"));
            self.origins.moved(format!("{at}/targets"), from);
            self.repairs.made(
                format!("{at}/targets"),
                "`branches` of a `scatterGather`",
                "they are `targets`",
            );
            scatter.insert("targets".to_owned(), branches);
        }
        if !scatter.contains_key("aggregation") && !scatter.contains_key("aggregator") {
            let what = "a `scatterGather` without `aggregation`";
            self.repairs.made(at, what, "it has no operations, so the results are a list");
            scatter.insert("aggregation".to_owned(), json!({ "ops": [] }));
        }
        self.explain_operations(scatter, at);
        let targets = scatter.get_mut("targets").and_then(Value::as_array_mut);
        for (i, target) in targets.into_iter().flatten().enumerate() {
            let at = format!("{at}/targets/{i}");
            self.target(target, &at, depth);
        }
    }

    /// A target is an operation with an optional `input`.
    fn target(&mut self, target: &mut Value, at: &str, depth: usize) {
        if let Some(map) = target.as_object_mut()
            && let Some(operation) = map.remove("operation")
        {
            map.remove("id");
            if let Value::Object(operation) = operation {
                map.extend(operation);
            } else {
                map.insert("tool".to_owned(), operation);
            }
            self.repairs.made(at, "a target with an `operation`", "the operation is the target");
        }
        let input = target.as_object_mut().and_then(|target| target.remove("input"));
        self.operation(target, at, depth);
        if let (Some(input), Some(map)) = (input, target.as_object_mut()) {
            map.insert("input".to_owned(), input);
        }
        self.binding_in(target, "input", at);
    }

    /// Reports unsupported operations of an aggregation.
    fn explain_operations(&mut self, scatter: &Map<String, Value>, at: &str) {
        let ops = scatter.get("aggregation").and_then(|aggregation| aggregation["ops"].as_array());
        for (i, op) in ops.into_iter().flatten().enumerate() {
            let at = format!("{at}/aggregation/ops/{i}");
            if op.get("extract").is_some() {
                let how = "make each target a pipeline whose last step is a `schemaMap` or `filter` of that part";
                self.repairs.needed(at, "an aggregation has no `extract`", how);
            } else if op.get("wrap").is_some() {
                let how = "make it a pipeline: the `scatterGather`, and then a `schemaMap` with \
                           { \"FIELD\": { \"path\": \"$\" } }";
                self.repairs.needed(at, "an aggregation has no `wrap`", how);
            }
        }
        if scatter.contains_key("aggregator") {
            let how = "write `aggregation`: { \"ops\": [ … ] } of flatten, concat, sort, dedupe, limit and merge";
            self.repairs.needed(
                format!("{at}/aggregator"),
                "a `scatterGather` has no `aggregator`",
                how,
            );
        }
    }

    fn operation_in(&mut self, holder: &mut Value, member: &str, (at, depth): (&str, usize)) {
        if let Some(operation) = holder.get_mut(member) {
            self.operation(operation, &pointer_join(at, member), depth);
        }
    }

    fn operation(&mut self, operation: &mut Value, at: &str, depth: usize) {
        if let Value::String(name) = operation {
            self.repairs.made(at, "an operation as a text", "it calls the tool of that name");
            *operation = json!({ "tool": { "name": name } });
        }
        let Some(map) = operation.as_object_mut() else { return };
        let wrapper = ["tool", "agent", "pattern"].into_iter().find(|name| map.contains_key(*name));
        match wrapper {
            Some("tool") => self.tool(map, at),
            Some("pattern") => self.spec(&mut map["pattern"], &format!("{at}/pattern"), depth + 1),
            Some(_) => self.version_of_agent(&mut map["agent"], &format!("{at}/agent")),
            None => self.bare_operation(map, at, depth),
        }
    }

    /// An operation without a wrapper: a pattern, a call or a reference.
    fn bare_operation(&mut self, map: &mut Map<String, Value>, at: &str, depth: usize) {
        let is_call = map.get("name").is_some_and(Value::is_string);
        if let Some(name) = pattern_of(map) {
            let what = format!("`{name}` as an operation");
            self.repairs.made(at, what, "it is in `pattern`");
            self.origins.moved(format!("{at}/pattern"), self.origins.origin(at));
            let pattern = Value::Object(std::mem::take(map));
            map.insert("pattern".to_owned(), pattern);
            self.spec(&mut map["pattern"], &format!("{at}/pattern"), depth + 1);
        } else if is_call && map.get("type").is_some_and(|of| of == "agent") {
            map.remove("type");
            let mut agent = Value::Object(std::mem::take(map));
            self.repairs.made(at, "a reference as an operation", "it is in `agent`");
            self.version_of_agent(&mut agent, at);
            self.origins.moved(format!("{at}/agent"), self.origins.origin(at));
            map.insert("agent".to_owned(), agent);
        } else if is_call {
            map.remove("type");
            if map.get("arguments").is_some_and(|given| *given == json!({})) {
                map.remove("arguments");
            }
            self.repairs.made(at, "a call as an operation", "it is in `tool`");
            self.origins.moved(format!("{at}/tool"), self.origins.origin(at));
            let tool = Value::Object(std::mem::take(map));
            map.insert("tool".to_owned(), tool);
            self.tool(map, at);
        }
    }

    /// A tool call, which may name a server and versions. An ambiguous call stays unchanged, so
    /// that the registry rejects it.
    fn tool(&mut self, operation: &mut Map<String, Value>, at: &str) {
        let Some(call) = Call::parse(operation, at) else { return };
        let Some(place) = call.places().next().map(str::to_owned) else { return };
        match self.callee(&call, &place) {
            Ok(name) => callee::write(operation, &name),
            Err(Unclear { what, how }) => {
                self.repairs.needed(place, what, how);
                self.explained.extend(call.places().map(str::to_owned));
                // Members next to `tool` are reported for the operation.
                self.explained.push(at.to_owned());
            }
        }
    }

    /// Declares the tool of a call and returns its name.
    fn callee(&mut self, call: &Call, place: &str) -> Result<String, Unclear> {
        let (server_version, version) = (call.version("serverVersion")?, call.version("version")?);
        let Some((place, server)) = call.server()? else {
            let Some(version) = version else { return Ok(call.name.clone()) };
            self.depend(json!({ "type": "tool", "name": call.name, "version": version }), place)?;
            let what = "a step names the version of its tool";
            self.repairs.made(place, what, "it is in `depends`");
            return Ok(call.name.clone());
        };
        let (server_version, version) = (server_version.as_deref(), version.as_deref());
        let wanted = Wanted { name: &call.name, server, server_version, version };
        let found = self.callees.find(&wanted, &self.depends)?;
        let (CalleeMatch::Known(tool) | CalleeMatch::New(tool)) = &found;
        let (name, version) = (tool.name.clone(), tool.version.clone());
        self.depend(json!({ "type": "tool", "name": name, "version": version }), place)?;
        if let CalleeMatch::New(tool) = found {
            self.callees.add(tool, place);
        }
        let what = format!("a step names {} of the server {}", quoted(&call.name), quoted(server));
        let how = format!("it calls the tool {}, version {version}", quoted(&name));
        self.repairs.made(place, what, how);
        Ok(name)
    }

    /// Declares the target of a step. A composition calls each name in one version.
    fn depend(&mut self, new: Value, place: &str) -> Result<(), Unclear> {
        let same =
            |known: &&Value, parts: &[&str]| parts.iter().all(|part| known[*part] == new[*part]);
        let mut known = self.depends.iter().filter(|known| same(known, &["type", "name"]));
        let is_version = |known: &&Value| known["version"] == new["version"];
        if known.clone().any(|known| same(&known, &["skill"]) && is_version(&known)) {
            return Ok(());
        }
        if let Some(other) = known.find(|known| !is_version(known)) {
            let shown = |of: &Value| {
                let text = |part: &str| of[part].as_str().unwrap_or_default().to_owned();
                quoted(&format!("{}@{}", text("name"), text("version")))
            };
            let what = format!(
                "a step calls {}, but the composition depends on {}",
                shown(&new),
                shown(other)
            );
            let how = "a composition calls one version of each name: make one of the calls a tool of its own, \
                       and call that tool here";
            return Err(Unclear { what, how: how.to_owned() });
        }
        let to = format!("/depends/{}", self.depends.len());
        self.origins.moved(to, self.origins.origin(place));
        self.depends.push(new);
        Ok(())
    }

    fn version_of_agent(&mut self, agent: &mut Value, at: &str) {
        let Some(map) = agent.as_object_mut() else { return };
        let Some(Value::String(version)) = map.get("version") else { return };
        let version =
            names::closest_version(version).map_or(version.clone(), |exact| exact.to_string());
        let (name, skill) = (map.get("name"), map.get("skill"));
        let new = json!({ "type": "agent", "name": name, "version": version, "skill": skill });
        let place = format!("{at}/version");
        match self.depend(new, &place) {
            Ok(()) => {
                let what = "a step names the version of its agent";
                self.repairs.made(place, what, "it is in `depends`");
                map.remove("version");
            }
            Err(Unclear { what, how }) => self.repairs.needed(place, what, how),
        }
    }

    fn binding_in(&mut self, holder: &mut Value, member: &str, at: &str) {
        if let Some(binding) = holder.get_mut(member) {
            self.binding(binding, &pointer_join(at, member));
        }
    }

    fn binding(&mut self, binding: &mut Value, at: &str) {
        const KINDS: [&str; 7] =
            ["input", "path", "step", "reference", "constant", "construct", "error"];
        let Some(map) = binding.as_object_mut() else { return };
        if let Some(literal) = map.remove("literal") {
            self.repairs.made(at, "`literal` as a binding", "it is written `constant`");
            map.insert("constant".to_owned(), plain_literal(&literal));
        }
        let fields = map.get_mut("construct").and_then(|construct| construct.get_mut("fields"));
        if let Some(Value::Object(fields)) = fields {
            for (name, field) in fields {
                self.binding(field, &pointer_join(&format!("{at}/construct/fields"), name));
            }
            return;
        }
        let is_binding = map.len() == 1
            && map
                .iter()
                .all(|(name, value)| is_binding(name, value) && KINDS.contains(&name.as_str()));
        if is_binding || map.is_empty() || !map.values().all(Value::is_object) {
            return;
        }
        self.repairs.made(at, "an object of bindings", "it is in `construct.fields`");
        let to = format!("{at}/construct/fields");
        self.origins.moved(&to, self.origins.origin(at));
        let mut fields = std::mem::take(map);
        for (name, field) in &mut fields {
            rooted(field);
            self.binding(field, &pointer_join(&to, name));
        }
        map.insert("construct".to_owned(), json!({ "fields": fields }));
    }

    /// Converts the `output` of a pipeline to a last step.
    fn pipeline_output(&mut self, body: &mut Value, at: &str) {
        self.binding_in(body, "output", at);
        let Some(pipeline) = body.as_object_mut() else { return };
        let fields = pipeline.get("output").and_then(|output| output.pointer("/construct/fields"));
        let fields = fields.and_then(Value::as_object).cloned();
        let Some(Value::Array(steps)) = pipeline.get_mut("steps") else { return };
        let place = format!("{at}/output");
        let is_free = steps.iter().all(|step| step["id"] != "output");
        if let (Some(fields), true) = (fields, is_free) {
            let mappings: Map<String, Value> = fields
                .keys()
                .map(|name| (name.clone(), json!({ "path": format!("$[{}]", json!(name)) })))
                .collect();
            let operation = json!({ "pattern": { "schemaMap": { "mappings": mappings } } });
            let input = json!({ "construct": { "fields": fields } });
            self.origins.moved(format!("{at}/steps/{}", steps.len()), self.origins.origin(&place));
            steps.push(json!({ "id": "output", "operation": operation, "input": input }));
            pipeline.remove("output");
            let how = "a last step `output` makes that object; a field without a value is null";
            self.repairs.made(place, "a pipeline with an `output`", how);
        } else if pipeline.contains_key("output") {
            let how =
                "the result is that of the last step: add a step with a `schemaMap` that makes it";
            self.repairs.needed(place, "a pipeline has no `output`", how);
        }
    }
}

/// The pattern of a spec.
fn pattern_of(map: &Map<String, Value>) -> Option<&'static str> {
    PATTERNS.iter().copied().find(|name| map.contains_key(*name))
}

/// Whether a member is a binding and not a field of the same name.
fn is_binding(kind: &str, value: &Value) -> bool {
    match kind {
        "input" | "error" => value.get("path").is_some_and(Value::is_string),
        "step" => value.get("stepId").is_some(),
        "reference" => value.get("step").is_some_and(Value::is_string),
        _ => true,
    }
}

/// Older paths start at the run: `$.input.id`, `$.steps.fetch.id`.
fn rooted(binding: &mut Value) {
    let Some(path) = binding.get("path").and_then(Value::as_str) else { return };
    let split = |rest: &str| {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        (rest[..end].to_owned(), format!("${}", &rest[end..]))
    };
    if let Some(rest) =
        path.strip_prefix("$.input").filter(|rest| !rest.starts_with(char::is_alphanumeric))
    {
        *binding = json!({ "input": { "path": format!("${rest}") } });
    } else if let Some(rest) = path.strip_prefix("$.steps.") {
        let (id, path) = split(rest);
        *binding = json!({ "step": { "stepId": id, "path": path } });
    }
}

/// `30s`, `500ms`, `2m`, or a number of milliseconds.
fn milliseconds(value: &Value) -> Option<u64> {
    let Some(text) = value.as_str() else { return value.as_u64() };
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
