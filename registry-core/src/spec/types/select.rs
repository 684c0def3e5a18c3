//! What a path selects of what may come, and what bindings and mappings build of that.
//!
//! Only paths of names, positions and `[*]` are followed, through schemas that say it plainly.
//! Deliberately absent: exactness; what is not plain is unknown.

use serde_json::{Map, Value, json};

use super::{Flow, work::Work};
use crate::spec::{Binding, FieldPath, FieldSource, Mappings, Path};

/// What schemas say of a value that is not about its type, members or items, and may say more of those.
const OTHERWISE: [&str; 16] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
    "patternProperties",
    "dependentSchemas",
    "prefixItems",
    "additionalItems",
    "enum",
    "const",
    "unevaluatedProperties",
];

/// A part of a path.
enum Segment {
    Name(String),
    Position,
    All,
}

/// What a path selects.
pub(super) struct Selected {
    pub(super) flow: Flow,
    /// Whether it always selects something.
    pub(super) is_sure: bool,
}

impl Selected {
    fn unknown() -> Self {
        Self { flow: Flow::unknown(), is_sure: false }
    }
}

/// What a path selects of this; `None`: never anything.
pub(super) fn select(path: &Path, from: &Flow, work: &Work) -> Option<Selected> {
    let Some(segments) = segments(path.as_str()) else { return Some(Selected::unknown()) };
    let (mut at, mut is_sure, mut is_many) = (&from.schema, true, false);
    for segment in segments {
        let part = match &segment {
            Segment::Name(name) => match member(at, name) {
                Member::Never => return None,
                Member::Unknown => None,
                Member::Is(schema, is_always) => {
                    is_sure &= is_always;
                    Some(schema)
                }
            },
            Segment::Position | Segment::All => {
                is_many |= matches!(segment, Segment::All);
                is_sure = false;
                items_of(at)
            }
        };
        let Some(part) = part else { return Some(Selected::unknown()) };
        at = part;
    }
    let Some(schema) = work.copy(at) else { return Some(Selected::unknown()) };
    let mut flow = Flow { schema, is_known: from.is_known };
    if is_many {
        // One is itself, several are an array.
        flow = Flow::any_of([work.copied(&flow), flow.array_of()]);
    }
    Some(Selected { flow, is_sure })
}

/// The segments of a path that is plain.
fn segments(text: &str) -> Option<Vec<Segment>> {
    let mut rest = text.strip_prefix('$')?;
    let mut segments = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("[*]") {
            segments.push(Segment::All);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
            let (name, after) = after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()));
            if name.is_empty() {
                return None;
            }
            segments.push(Segment::Name(name.to_owned()));
            rest = after;
        } else {
            let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
            segments.push(bracketed(inside)?);
            rest = after;
        }
    }
    Some(segments)
}

fn bracketed(inside: &str) -> Option<Segment> {
    if inside.parse::<i64>().is_ok() {
        return Some(Segment::Position);
    }
    let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let name = inside.strip_prefix(quote)?.strip_suffix(quote)?;
    (!name.contains(['\\', '\'', '"'])).then(|| Segment::Name(name.to_owned()))
}

/// A schema that says plainly what it is about.
fn plain(schema: &Value) -> Option<&Map<String, Value>> {
    let schema = schema.as_object()?;
    OTHERWISE.iter().all(|keyword| !schema.contains_key(*keyword)).then_some(schema)
}

/// What is known of a member.
enum Member<'s> {
    Never,
    Unknown,
    /// Its schema, and whether it is always there.
    Is(&'s Value, bool),
}

fn member<'s>(schema: &'s Value, name: &str) -> Member<'s> {
    let Some(schema) = plain(schema) else { return Member::Unknown };
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {}
        Some(_) => return Member::Never,
        None => return Member::Unknown,
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_always = required.is_some_and(|names| names.iter().any(|known| known == name));
    match (
        schema.get("properties").and_then(|all| all.get(name)),
        schema.get("additionalProperties"),
    ) {
        (Some(member), _) => Member::Is(member, is_always),
        (None, Some(Value::Bool(false))) => Member::Never,
        (None, _) => Member::Unknown,
    }
}

fn items_of(schema: &Value) -> Option<&Value> {
    plain(schema)?.get("items")
}

/// The items of an array.
pub(super) fn items(flow: &Flow, work: &Work) -> Flow {
    let items = items_of(&flow.schema).and_then(|items| work.copy(items));
    items.map_or_else(Flow::unknown, |schema| Flow { schema, is_known: flow.is_known })
}

/// What bindings see.
pub(super) struct Scope<'a> {
    pub(super) input: &'a Flow,
    pub(super) steps: &'a [(&'a str, Flow)],
    pub(super) work: &'a Work,
}

/// What a binding delivers; `None`: never anything.
pub(super) fn bound(binding: &Binding, scope: &Scope<'_>) -> Option<Selected> {
    match binding {
        Binding::Input(path) => select(path, scope.input, scope.work),
        Binding::Step { id, path } => {
            let step = scope.steps.iter().find(|(known, _)| known == id);
            step.map_or_else(
                || Some(Selected::unknown()),
                |(_, flow)| select(path, flow, scope.work),
            )
        }
        Binding::Error(_) => Some(Selected::unknown()),
        Binding::Constant(value) => {
            let value = scope.work.copy(value).map(|value| Flow::known(json!({ "const": value })));
            Some(Selected { flow: value.unwrap_or_else(Flow::unknown), is_sure: true })
        }
        Binding::Construct(fields) => {
            let fields = fields.iter().filter_map(|(name, binding)| {
                bound(binding, scope).map(|selected| (name.as_str(), selected))
            });
            Some(Selected { flow: object(fields), is_sure: true })
        }
    }
}

/// An object of exactly these members.
fn object<'a>(fields: impl Iterator<Item = (&'a str, Selected)>) -> Flow {
    let (mut properties, mut required, mut is_known) = (Map::new(), Vec::new(), true);
    for (name, Selected { flow, is_sure }) in fields {
        is_known &= flow.is_known;
        properties.insert(name.to_owned(), flow.schema);
        if is_sure {
            required.push(name);
        }
    }
    let schema = json!({ "type": "object", "properties": properties, "required": required,
        "additionalProperties": false });
    Flow { schema, is_known }
}

/// What mappings build: every field is there, null where nothing was found.
pub(super) fn mapped(mappings: &Mappings, from: &Flow, work: &Work) -> Flow {
    let is_nested = |array: &str| {
        mappings.0.iter().any(|mapping| {
            matches!(&mapping.field, FieldPath::EachItem { array: known, .. } if known == array)
        })
    };
    let fields = mappings.0.iter().filter_map(|mapping| {
        let FieldPath::Field(name) = &mapping.field else { return None };
        let flow =
            if is_nested(name) { Flow::unknown() } else { source(&mapping.source, from, work) };
        Some((name.as_str(), Selected { flow, is_sure: true }))
    });
    object(fields)
}

fn source(source: &FieldSource, from: &Flow, work: &Work) -> Flow {
    let null = || Flow::known(json!({ "type": "null" }));
    match source {
        FieldSource::Path(path) => match select(path, from, work) {
            None => null(),
            Some(Selected { flow, is_sure: true }) => flow,
            Some(Selected { flow, .. }) => Flow::any_of([flow, null()]),
        },
        FieldSource::Literal(value) => {
            let value = work.copy(value).map(|value| Flow::known(json!({ "const": value })));
            value.unwrap_or_else(Flow::unknown)
        }
        FieldSource::Template { .. } | FieldSource::Concat { .. } => {
            Flow::known(json!({ "type": "string" }))
        }
        FieldSource::Coalesce(_) => Flow::unknown(),
        FieldSource::Nested(mappings) => mapped(mappings, from, work),
    }
}
