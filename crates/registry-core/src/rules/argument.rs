//! `document-invalid`: `hideFields` and `defaults` fit the arguments of the source.
//!
//! The arguments are known from the tool's own input schema, or from that of another tool with the
//! same source and neither hidden fields nor defaults, which gateways compare with the server's.
//! Without one, a tool of the nearest earlier version of the server is compared. Its findings are
//! warnings, because the arguments may have changed.
//!
//! A misspelled hidden field would leave the argument open to callers. It is an error if the schema
//! is closed, and a warning if the server may accept more arguments. A default that the tool's own
//! schema does not name is only a warning, because that schema may describe the arguments of callers
//! without a constant that the gateway adds.
//!
//! No call succeeds if a required field is hidden without a default, or if a default violates its
//! schema. In a registry file, these are warnings, because the original registration accepted them.

use schema_compat::{json_schema::reference_of, pointer::pointer_join};
use serde_json::{Map, Value};

use super::{
    BatchOrigin,
    flow::self_contained::self_contained,
    proposal::{NewEntity, Proposal},
    schema::schema_of,
    source_schemas::{SourceSchema, SourceSchemas},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Entity, Tool, ToolSource},
    reference::{Key, SchemaRef, pure_reference},
    schema_inline::InlineBudget,
    spec::types::{ArgumentSchema, Misfit, Reason},
    suggest::closest,
    tool_schema::{bundle::bundle, hide::HiddenField},
};

/// Maximum number of subschemas inspected per argument.
const INSPECTED: usize = 1_000;
/// Maximum length of a chain of schemas that are nothing but a reference.
const CHAIN: usize = 32;
/// Maximum number of steps to check the values of the defaults in a batch.
const STEPS: usize = 10_000;

/// The arguments of the sources in a batch.
pub(super) struct Arguments<'a> {
    proposal: &'a Proposal<'a>,
    origin: BatchOrigin,
    sources: SourceSchemas<'a>,
    inlining: InlineBudget,
    steps: usize,
}

/// The input schema of a source.
#[derive(Clone, Copy)]
struct KnownSchema<'a> {
    schema: &'a Value,
    /// The tool with this schema; `None` for the checked tool itself.
    of: Option<&'a Key>,
    /// Whether the schema is that of the source's version of the server.
    is_exact: bool,
}

impl KnownSchema<'_> {
    fn name(&self) -> String {
        self.of.map_or_else(
            || "the input schema".to_owned(),
            |key| format!("the input schema of {key}"),
        )
    }
}

/// A tool with hidden fields or defaults.
struct Checked<'t, 'a> {
    new: &'t NewEntity<'a>,
    source: &'a ToolSource,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(proposal: &'a Proposal<'a>, origin: BatchOrigin) -> Self {
        Self {
            proposal,
            origin,
            sources: SourceSchemas::new(proposal, described),
            inlining: InlineBudget::for_server(),
            steps: STEPS,
        }
    }

    pub(super) fn check(&mut self, new: &NewEntity<'a>, found: &mut Vec<Diagnostic>) {
        let Entity::Tool(tool) = new.entity() else { return };
        let Some(source) = tool.source().filter(|source| is_checked(source)) else { return };
        let checked = Checked { new, source };
        let Some(known) = self.known(tool, source) else {
            return checked.dotted_defaults(found);
        };
        match InputSchema::new(self.proposal, known) {
            Some(input) => {
                checked.hidden_names(&input, found);
                self.default_names(&checked, &input, found);
            }
            None => checked.dotted_defaults(found),
        }
        self.values(&checked, known, found);
    }

    fn known(&mut self, tool: &'a Tool, source: &'a ToolSource) -> Option<KnownSchema<'a>> {
        if let Some(schema) = &tool.input_schema {
            return Some(KnownSchema { schema, of: None, is_exact: true });
        }
        let SourceSchema { schema, of, is_exact } = self.sources.find(source)?;
        Some(KnownSchema { schema, of: Some(of), is_exact })
    }

    /// Reports a mistake. `is_certain`: the server version rejects the argument, or its absence.
    fn report(
        &self,
        new: &NewEntity<'_>,
        is_certain: bool,
        (pointer, message): (String, String),
        help: String,
        found: &mut Vec<Diagnostic>,
    ) {
        let problem = if is_certain && self.origin == BatchOrigin::Request {
            Diagnostic::error(Code::DocumentInvalid, pointer, message)
        } else {
            Diagnostic::warning(Code::DocumentInvalid, pointer, message)
        };
        new.report(found, problem.with_help(help));
    }

    fn default_names(
        &self,
        checked: &Checked<'_, 'a>,
        input: &InputSchema<'_>,
        found: &mut Vec<Diagnostic>,
    ) {
        for name in checked.default_names().filter(|name| !input.has(&[*name])) {
            let whose = input.known.name();
            let message = format!("the argument `{name}` of a default is not in {whose}");
            let pointer = pointer_join("/source/defaults", name);
            let help = nested_remedy(name).unwrap_or_else(|| input.help(&[name]));
            let KnownSchema { of, is_exact, .. } = input.known;
            let is_certain = of.is_some() && is_exact && input.rejects(name);
            self.report(checked.new, is_certain, (pointer, message), help, found);
        }
    }

    /// Reports required fields that are hidden without a default, and invalid values of defaults.
    fn values(
        &mut self,
        checked: &Checked<'_, 'a>,
        known: KnownSchema<'a>,
        found: &mut Vec<Diagnostic>,
    ) {
        let (proposal, whose) = (self.proposal, known.name());
        let bundled = bundle(known.schema, &|key| schema_of(proposal, key)).ok();
        let schema = bundled.and_then(|schema| self_contained(&schema, &mut self.inlining));
        let Some(schema) = schema.and_then(ArgumentSchema::new) else { return };
        let none = Map::new();
        let defaults = checked.source.defaults.as_ref().unwrap_or(&none);
        for (i, field) in checked.source.hide_fields.iter().enumerate() {
            let path: Vec<&str> = field.split('.').collect();
            if HiddenField::parse(field).find(defaults).is_some() || !schema.requires(&path) {
                continue;
            }
            let message = format!(
                "{whose} requires the hidden field `{field}`, which has no default: no call succeeds"
            );
            let help = format!("add {} to `defaults`, or do not hide it", nested(&path));
            let pointer = format!("/source/hideFields/{i}");
            self.report(checked.new, known.is_exact, (pointer, message), help, found);
        }
        for Misfit { path, reason } in schema.misfits(defaults, &mut self.steps) {
            let pointer =
                path.iter().fold("/source/defaults".to_owned(), |at, name| pointer_join(&at, name));
            let name = path.join(".");
            match reason {
                Reason::Violation(reason) => {
                    let message = format!("the default of `{name}` violates {whose}: {reason}");
                    let help = "write a value that the schema accepts".to_owned();
                    self.report(checked.new, known.is_exact, (pointer, message), help, found);
                }
                // Another finding reports it.
                Reason::Undeclared(_) if path.len() == 1 => {}
                Reason::Undeclared(similar) => {
                    let parents = &path[..path.len() - 1];
                    let message = format!("the argument `{name}` of a default is not in {whose}");
                    let help = similar.map_or_else(
                        || "remove it, or use a member that the schema declares".to_owned(),
                        |similar| format!("did you mean `{}.{similar}`?", parents.join(".")),
                    );
                    let is_certain = known.of.is_some() && known.is_exact;
                    self.report(checked.new, is_certain, (pointer, message), help, found);
                }
            }
        }
    }
}

/// The source of a tool and its input schema, if the schema describes the arguments of the source.
fn described(tool: &Tool) -> Option<(&ToolSource, &Value)> {
    let source = tool.source().filter(|source| !is_checked(source))?;
    Some((source, tool.input_schema.as_ref()?))
}

/// Whether a source has hidden fields or defaults.
fn is_checked(source: &ToolSource) -> bool {
    !source.hide_fields.is_empty() || source.defaults.is_some()
}

impl<'a> Checked<'_, 'a> {
    fn default_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.source.defaults.iter().flat_map(Map::keys).map(String::as_str)
    }

    /// Warns about defaults whose names look like paths, if the arguments are unknown.
    fn dotted_defaults(&self, found: &mut Vec<Diagnostic>) {
        for name in self.default_names() {
            let Some(help) = nested_remedy(name) else { continue };
            let message = format!(
                "the default `{name}` is for an argument with a dot in its name, not for a member"
            );
            let pointer = pointer_join("/source/defaults", name);
            let problem = Diagnostic::warning(Code::DocumentInvalid, pointer, message);
            self.new.report(found, problem.with_help(help));
        }
    }

    fn hidden_names(&self, input: &InputSchema<'_>, found: &mut Vec<Diagnostic>) {
        for (i, field) in self.source.hide_fields.iter().enumerate() {
            let path: Vec<&str> = field.split('.').collect();
            if input.has(&path) {
                continue;
            }
            let message = format!("the hidden field `{field}` is not in {}", input.known.name());
            let pointer = format!("/source/hideFields/{i}");
            let problem = if input.known.is_exact && input.rejects(path[0]) {
                Diagnostic::error(Code::DocumentInvalid, pointer, message)
            } else {
                Diagnostic::warning(Code::DocumentInvalid, pointer, message)
            };
            self.new.report(found, problem.with_help(input.help(&path)));
        }
    }
}

/// The remedy for a default whose name is a path of members.
fn nested_remedy(name: &str) -> Option<String> {
    let path: Vec<&str> = name.split('.').collect();
    let is_path = path.len() > 1 && path.iter().all(|part| !part.is_empty());
    is_path.then(|| format!("for the default of a member, write {}", nested(&path)))
}

/// The JSON of a default for a member.
fn nested(path: &[&str]) -> String {
    let inner = |form: String, name: &&str| format!("{}: {form}", Value::from(*name));
    let mut names = path.iter().rev();
    let last = names.next().map(|name| inner("…".to_owned(), name)).unwrap_or_default();
    names.fold(last, |form, name| inner(format!("{{{form}}}"), name))
}

/// The registered input schema of a source.
struct InputSchema<'a> {
    proposal: &'a Proposal<'a>,
    known: KnownSchema<'a>,
    root: &'a Value,
    /// The properties at the top level.
    arguments: &'a Map<String, Value>,
}

/// An object schema on a path of members, with the number of members before it.
type OnPath<'a> = (usize, &'a Map<String, Value>);

impl<'a> InputSchema<'a> {
    /// `None` if the schema names no arguments or does not resolve.
    fn new(proposal: &'a Proposal<'a>, known: KnownSchema<'a>) -> Option<Self> {
        let mut root = known.schema;
        for _ in 0..CHAIN {
            let Some(key) = pure_reference(root) else { break };
            root = schema_of(proposal, &key)?;
        }
        let arguments = root.get("properties")?.as_object()?;
        Some(Self { proposal, known, root, arguments })
    }

    /// Whether the schema names this argument, or is too large to decide.
    fn has(&self, path: &[&str]) -> bool {
        let Some((last, parents)) = path.split_last() else { return true };
        let declares =
            |(depth, map): &OnPath<'_>| *depth == parents.len() && property(map, last).is_some();
        self.on_path(parents).is_none_or(|objects| objects.iter().any(declares))
    }

    /// The object schemas on this path, through references and branches. `None` if it is undecided.
    fn on_path(&self, path: &[&str]) -> Option<Vec<OnPath<'a>>> {
        let mut found = Vec::new();
        let mut pending = vec![Part { schema: self.root, path, document: self.root }];
        for _ in 0..INSPECTED {
            let Some(part) = pending.pop() else { return Some(found) };
            let Value::Object(map) = part.schema else { continue };
            found.push((path.len() - part.path.len(), map));
            if let [name, rest @ ..] = part.path
                && let Some(inner) = property(map, name)
            {
                pending.push(Part { schema: inner, path: rest, ..part });
            }
            let lists = ["allOf", "anyOf", "oneOf"].into_iter();
            let listed = lists.filter_map(|keyword| map.get(keyword)?.as_array()).flatten();
            let single = ["then", "else"].into_iter().filter_map(|keyword| map.get(keyword));
            let dependent = map.get("dependentSchemas").and_then(Value::as_object);
            let dependent = dependent.into_iter().flat_map(Map::values);
            let branches = listed.chain(single).chain(dependent);
            pending.extend(branches.map(|schema| Part { schema, ..part }));
            if map.contains_key("$dynamicRef") {
                return None;
            }
            if let Some(reference) = reference_of(map) {
                pending.push(self.follow(reference, part)?);
            }
        }
        None
    }

    /// The schema behind a reference. `None` if it is undecided; other rules report invalid references.
    fn follow<'p>(&self, reference: &str, part: Part<'a, 'p>) -> Option<Part<'a, 'p>> {
        if let Some(reference) = SchemaRef::parse(reference) {
            let schema = schema_of(self.proposal, reference.ok()?.key())?;
            return Some(Part { schema, document: schema, ..part });
        }
        let schema = part.document.pointer(reference.strip_prefix('#')?)?;
        Some(Part { schema, ..part })
    }

    /// Whether the schema rejects every value of this argument.
    fn rejects(&self, name: &str) -> bool {
        self.root.get("additionalProperties") == Some(&Value::Bool(false))
            && self.root.get("patternProperties").is_none()
            && !self.arguments.contains_key(name)
    }

    fn help(&self, path: &[&str]) -> String {
        match (self.similar(path), self.known.of) {
            (Some(similar), _) => format!("did you mean `{similar}`?"),
            (None, None) => {
                "use an argument of the input schema, or add it to the schema".to_owned()
            }
            (None, Some(_)) => "use an argument of the input schema".to_owned(),
        }
    }

    /// A path that the schema names, with another name in place of the first unknown one.
    fn similar(&self, path: &[&str]) -> Option<String> {
        let objects = self.on_path(path)?;
        let is_named = |(depth, map): &OnPath<'_>| {
            path.get(*depth).is_some_and(|name| property(map, name).is_some())
        };
        let named = objects.iter().filter(|object| is_named(object));
        let known = named.map(|(depth, _)| depth + 1).max().unwrap_or(0);
        let (parents, [name, rest @ ..]) = path.split_at(known) else { return None };
        let here = objects.iter().filter(|(depth, _)| *depth == known);
        let here = here.filter_map(|(_, map)| map.get("properties")?.as_object());
        let similar = closest(name, here.flat_map(Map::keys).map(String::as_str))?;
        let prefix = [parents, &[similar]].concat();
        let whole = [&prefix[..], rest].concat();
        let likely = if self.has(&whole) { whole } else { prefix };
        Some(likely.join("."))
    }
}

fn property<'s>(map: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    map.get("properties")?.get(name)
}

/// A part of a schema that may name an argument.
#[derive(Clone, Copy)]
struct Part<'a, 'p> {
    schema: &'a Value,
    path: &'p [&'p str],
    /// The schema document of local references.
    document: &'a Value,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{
        Proposed,
        source_schemas::EARLIER_DEPENDENTS,
        testing::{catalog, found_of, lines, schema, server, source_tool, versioned, with},
        validate,
    };
    use crate::diagnostic::Code;

    /// A tool with these members of its source, and without an input schema.
    fn view(members: &Value) -> Proposed {
        let mut source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t" });
        source.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        with(&source_tool("view", "s"), json!({ "source": source }))
    }

    /// The findings about a tool with this input schema and these members of its source.
    fn found(input: &Value, members: &Value) -> String {
        let tool = with(&view(members), json!({ "name": "t", "inputSchema": input }));
        let filters = json!({ "properties": { "author": {} }, "additionalProperties": false });
        let page = json!({ "properties": { "url": {}, "maxLength": {},
            "filters": { "$ref": "#Filters:1.0.0" } }, "additionalProperties": false });
        let registered = [schema("Filters", &filters), schema("Page", &page)];
        found_of(Code::DocumentInvalid, &registered, &[tool])
    }

    #[test]
    fn hidden_field_outside_closed_schema_is_rejected() {
        let page = json!({ "$ref": "#Page:1.0.0" });
        insta::assert_snapshot!(
            found(&page, &json!({ "hideFields": ["url", "maxLengthh"] })),
            @"error[document-invalid] tool/t@1.0.0 at \"/source/hideFields/1\": the hidden field \
              `maxLengthh` is not in the input schema (did you mean `maxLength`?)"
        );
        let known = json!({ "hideFields": ["maxLength", "filters", "filters.author"],
            "defaults": { "maxLength": 5 } });
        assert_eq!(found(&page, &known), "");
    }

    #[test]
    fn unknown_argument_outside_open_schema_is_warned() {
        let open = json!({ "properties": { "url": {} }, "anyOf": [{ "required": ["url"] },
            { "properties": { "page": {} } }] });
        let members = json!({ "hideFields": ["page", "secret"], "defaults": { "ulr": 1 } });
        insta::assert_snapshot!(found(&open, &members), @r#"
        warning[document-invalid] tool/t@1.0.0 at "/source/hideFields/1": the hidden field `secret` is not in the input schema (use an argument of the input schema, or add it to the schema)
        warning[document-invalid] tool/t@1.0.0 at "/source/defaults/ulr": the argument `ulr` of a default is not in the input schema (did you mean `url`?)
        "#);
        assert_eq!(found(&json!({ "type": "object" }), &members), "");
    }

    #[test]
    fn misspelled_member_suggests_its_path() {
        let page = json!({ "$ref": "#Page:1.0.0" });
        let misspelled = ["filters.autor", "filter.author", "filter.tags"]
            .map(|field| found(&page, &json!({ "hideFields": [field] })));
        insta::assert_snapshot!(misspelled.join("\n"), @r#"
        warning[document-invalid] tool/t@1.0.0 at "/source/hideFields/0": the hidden field `filters.autor` is not in the input schema (did you mean `filters.author`?)
        error[document-invalid] tool/t@1.0.0 at "/source/hideFields/0": the hidden field `filter.author` is not in the input schema (did you mean `filters.author`?)
        error[document-invalid] tool/t@1.0.0 at "/source/hideFields/0": the hidden field `filter.tags` is not in the input schema (did you mean `filters`?)
        "#);
        let other = found(&page, &json!({ "hideFields": ["filters.tags", "url.host"] }));
        insta::assert_snapshot!(other, @r#"
        warning[document-invalid] tool/t@1.0.0 at "/source/hideFields/0": the hidden field `filters.tags` is not in the input schema (use an argument of the input schema, or add it to the schema)
        warning[document-invalid] tool/t@1.0.0 at "/source/hideFields/1": the hidden field `url.host` is not in the input schema (use an argument of the input schema, or add it to the schema)
        "#);
    }

    #[test]
    fn default_with_dot_names_nested_form() {
        let members = json!({ "defaults": { "to.country": "gb" }, "hideFields": ["to.country"] });
        insta::assert_snapshot!(
            found_of(Code::DocumentInvalid, &[], &[view(&members)]),
            @r#"warning[document-invalid] tool/view@1.0.0 at "/source/defaults/to.country": the default `to.country` is for an argument with a dot in its name, not for a member (for the default of a member, write "to": {"country": …})"#
        );
        let nested = json!({ "properties": { "to": { "properties": { "country": {} } } } });
        insta::assert_snapshot!(
            found(&nested, &members),
            @r#"warning[document-invalid] tool/t@1.0.0 at "/source/defaults/to.country": the argument `to.country` of a default is not in the input schema (for the default of a member, write "to": {"country": …})"#
        );
        let dotted = json!({ "properties": { "to.country": {} } });
        assert_eq!(found(&dotted, &json!({ "defaults": { "to.country": "gb" } })), "");
    }

    /// The schema of a parcel, whose fields are required.
    fn parcel() -> Value {
        let to = json!({ "type": "object", "required": ["country"], "additionalProperties": false,
            "properties": { "country": { "enum": ["de", "gb"] }, "street": { "type": "string" } } });
        json!({ "type": "object", "required": ["to", "weight", "unit"],
            "additionalProperties": false, "$defs": { "weight": { "type": "number" } },
            "properties": { "to": { "allOf": [to] }, "weight": { "$ref": "#/$defs/weight" },
                "unit": { "default": "kg" }, "note": { "type": ["string", "null"] } } })
    }

    #[test]
    fn hidden_required_field_needs_default() {
        insta::assert_snapshot!(
            found(&parcel(), &json!({ "hideFields": ["to.country", "weight", "unit", "note"] })),
            @r#"
        error[document-invalid] tool/t@1.0.0 at "/source/hideFields/0": the input schema requires the hidden field `to.country`, which has no default: no call succeeds (add "to": {"country": …} to `defaults`, or do not hide it)
        error[document-invalid] tool/t@1.0.0 at "/source/hideFields/1": the input schema requires the hidden field `weight`, which has no default: no call succeeds (add "weight": … to `defaults`, or do not hide it)
        "#
        );
        let constant = json!({ "hideFields": ["to.country", "weight"],
            "defaults": { "to": { "country": "${COUNTRY}" }, "weight": 1 } });
        assert_eq!(found(&parcel(), &constant), "");
        // Without `to` or with null, a call succeeds.
        for to in [
            json!({ "required": [] }),
            json!({ "properties": { "to": {
            "type": ["object", "null"], "required": ["country"],
            "properties": { "country": {} } } } }),
        ] {
            let mut schema = parcel();
            schema.as_object_mut().unwrap().extend(to.as_object().unwrap().clone());
            assert_eq!(found(&schema, &json!({ "hideFields": ["to.country"] })), "", "{schema}");
        }
    }

    #[test]
    fn default_must_match_schema() {
        let defaults = json!({ "note": null, "to": { "contry": "x", "country": 5 },
            "weight": "${WEIGHT}" });
        insta::assert_snapshot!(found(&parcel(), &json!({ "defaults": defaults })), @r#"
        error[document-invalid] tool/t@1.0.0 at "/source/defaults/to/country": the default of `to.country` violates the input schema: 5 is not one of "de" or "gb" (write a value that the schema accepts)
        error[document-invalid] tool/t@1.0.0 at "/source/defaults/weight": the default of `weight` violates the input schema: the schema takes a number (write a value that the schema accepts)
        warning[document-invalid] tool/t@1.0.0 at "/source/defaults/to/contry": the argument `to.contry` of a default is not in the input schema (did you mean `to.country`?)
        "#);
        // The other members may come from the caller.
        let partial = json!({ "to": { "street": "Main Street" }, "weight": 1.5, "unit": ["kg"] });
        assert_eq!(found(&parcel(), &json!({ "defaults": partial })), "");
        let open =
            json!({ "properties": { "a": { "anyOf": [{ "type": "string" }, { "maximum": 3 }] } } });
        assert_eq!(found(&open, &json!({ "defaults": { "a": "x" } })), "");
        assert!(found(&open, &json!({ "defaults": { "a": 4 } })).starts_with("error"));
    }

    #[test]
    fn arguments_are_known_from_tool_with_same_source() {
        let plain = |input: &Value| with(&source_tool("t", "s"), json!({ "inputSchema": input }));
        let view = view(&json!({ "hideFields": ["weight", "to.cuntry"],
            "defaults": { "to": { "contry": "x", "country": 5 }, "to.country": "gb" } }));
        let registered = [plain(&parcel())];
        let batch = [view.clone(), plain(&parcel())];
        let reported = found_of(Code::DocumentInvalid, &registered, std::slice::from_ref(&view));
        assert_eq!(reported, found_of(Code::DocumentInvalid, &[], &batch));
        insta::assert_snapshot!(reported, @r#"
        error[document-invalid] tool/view@1.0.0 at "/source/defaults/to.country": the argument `to.country` of a default is not in the input schema of tool/t@1.0.0 (for the default of a member, write "to": {"country": …})
        error[document-invalid] tool/view@1.0.0 at "/source/hideFields/0": the input schema of tool/t@1.0.0 requires the hidden field `weight`, which has no default: no call succeeds (add "weight": … to `defaults`, or do not hide it)
        error[document-invalid] tool/view@1.0.0 at "/source/defaults/to/contry": the argument `to.contry` of a default is not in the input schema of tool/t@1.0.0 (did you mean `to.country`?)
        error[document-invalid] tool/view@1.0.0 at "/source/defaults/to/country": the default of `to.country` violates the input schema of tool/t@1.0.0: 5 is not one of "de" or "gb" (write a value that the schema accepts)
        warning[document-invalid] tool/view@1.0.0 at "/source/hideFields/1": the hidden field `to.cuntry` is not in the input schema of tool/t@1.0.0 (did you mean `to.country`?)
        "#);
        // Tools that describe the source differently decide nothing.
        let other = with(&plain(&json!({ "type": "object" })), json!({ "name": "other" }));
        let found = found_of(Code::DocumentInvalid, &registered, &[view, other]);
        assert!(found.starts_with("warning") && found.lines().count() == 1, "{found}");
    }

    #[test]
    fn arguments_of_earlier_server_version_are_warned() {
        let version = |version: &str| versioned(&server("s", &["t"]), version);
        // Tools have the versions of their servers.
        let plain = |version: &str, input: &Value| {
            let source = json!({ "server": "s", "serverVersion": version, "tool": "t" });
            let tool = versioned(&source_tool("t", "s"), version);
            with(&tool, json!({ "source": source, "inputSchema": input }))
        };
        let view = view(&json!({ "serverVersion": "1.3.0", "hideFields": ["weight", "colour"],
            "defaults": { "to": { "country": 5 }, "unt": "kg" } }));
        let open = json!({ "type": "object" });
        let mut registered = ["1.0.0", "1.2.0", "1.3.0", "2.0.0"].map(version).to_vec();
        registered.extend([
            plain("1.0.0", &open),
            plain("1.2.0", &parcel()),
            plain("2.0.0", &open),
        ]);
        let found = |registered: &[Proposed]| {
            found_of(Code::DocumentInvalid, registered, std::slice::from_ref(&view))
        };
        let warned = found(&registered);
        for pointer in ["hideFields/0", "hideFields/1", "defaults/to/country", "defaults/unt"] {
            let start =
                format!("warning[document-invalid] tool/view@1.0.0 at \"/source/{pointer}\": ");
            let is_warned = |line: &str| line.starts_with(&start) && line.contains("tool/t@1.2.0");
            assert!(warned.lines().any(is_warned), "{pointer}: {warned}");
        }
        assert_eq!(warned.lines().count(), 4, "{warned}");
        // A tool of the version itself decides.
        registered.push(plain("1.3.0", &open));
        assert_eq!(found(&registered), "");
    }

    #[test]
    fn dependents_of_earlier_versions_are_limited() {
        let plain = |name: &str| {
            let changes = json!({ "name": name, "inputSchema": parcel() });
            with(&source_tool("t", "s"), changes)
        };
        let next = versioned(&server("s", &["t"]), "1.1.0");
        let mut registered = vec![server("s", &["t"]), next];
        registered.extend((0..EARLIER_DEPENDENTS).map(|i| plain(&format!("t{i}"))));
        let view = view(&json!({ "serverVersion": "1.1.0", "hideFields": ["weight"] }));
        let found = |registered: &[Proposed]| {
            found_of(Code::DocumentInvalid, registered, std::slice::from_ref(&view))
        };
        assert!(found(&registered).starts_with("warning"));
        registered.push(plain("more"));
        assert_eq!(found(&registered), "");
    }

    #[test]
    fn registered_mistakes_are_warnings_in_files() {
        let tool = with(
            &source_tool("t", "s"),
            json!({ "inputSchema": parcel(), "source": {
            "server": "s", "serverVersion": "1.0.0", "tool": "t", "hideFields": ["weight"] } }),
        );
        let mut found = validate(&catalog(&[]), &[tool]).diagnostics;
        found.retain(|diagnostic| diagnostic.code == Code::DocumentInvalid);
        assert!(lines(&found).starts_with("warning[document-invalid]"), "{found:?}");
    }

    #[test]
    fn cyclic_schema_is_undecided() {
        let cyclic = json!({ "properties": { "url": {} }, "anyOf": [{ "$ref": "#" }] });
        assert_eq!(found(&cyclic, &json!({ "hideFields": ["secret"] })), "");
    }
}
