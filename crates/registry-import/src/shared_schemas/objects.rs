//! Shares nested object schemas of several tools, the largest first.
//!
//! Equal values share a number, so equal schemas are found in one pass. A shared schema counts as
//! one more place of its inner schemas.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::{
    definitions::in_dialect,
    holder::{Holder, is_entered},
    is_registered,
    names::Names,
    walk::{rewrite, rewrite_inside, walk, walk_inside},
};

const PROPERTIES: usize = 2;

/// A shared schema: its dialect and its number.
type SharedId<'a> = (Option<&'a str>, u32);

/// The first occurrence of a schema, and the holders that contain it.
struct Occurrences<'a> {
    schema: &'a Value,
    suggested_name: String,
    holders: BTreeSet<usize>,
}

pub(super) fn extract(holders: &mut [Holder], names: &mut Names) {
    let mut numbers = Numbers::default();
    for holder in holders.iter() {
        numbers.number(&holder.schema);
    }
    let selected = select(holders, &numbers);
    let mut references: HashMap<SharedId<'_>, Value> = HashMap::new();
    // The innermost first, so that outer schemas can reference them.
    for (key, found) in selected.into_iter().rev() {
        let replace = &mut |schema: &Value, _: &[String]| {
            references.get(&(key.0, numbers.find(schema)?)).cloned()
        };
        let body = rewrite_inside(found.schema, &mut Vec::new(), replace);
        let reference = names.add(&found.suggested_name, in_dialect(&body, key.0));
        references.insert(key, reference);
    }
    let rewritten: Vec<_> = holders
        .iter()
        .map(|holder| {
            let (targets, dialect) = (holder.targets(), holder.dialect.as_deref());
            rewrite(&holder.schema, &mut Vec::new(), &mut |schema, path| {
                let reference = references.get(&(dialect, numbers.find(schema)?))?;
                (!is_entered(&targets, path)).then(|| reference.clone())
            })
        })
        .collect();
    for (holder, schema) in holders.iter_mut().zip(rewritten) {
        holder.schema = schema;
    }
}

/// The schemas to share, outer ones before inner ones.
fn select<'a>(holders: &'a [Holder], numbers: &Numbers) -> Vec<(SharedId<'a>, Occurrences<'a>)> {
    let mut selected: Vec<(SharedId<'a>, Occurrences<'a>)> = Vec::new();
    let tools = holders.iter().map(|holder| holder.tool + 1).max().unwrap_or_default();
    loop {
        let found = candidates(holders, numbers, &selected, tools);
        let mut round: Vec<_> =
            found.into_iter().filter(|(_, found)| found.holders.len() > 1).collect();
        // Nested occurrences would count twice, so only outermost ones count.
        let inner: BTreeSet<_> = round
            .iter()
            .flat_map(|(key, found)| inner_candidates(key, found.schema, numbers))
            .collect();
        round.retain(|(key, _)| !inner.contains(key));
        if round.is_empty() {
            return selected;
        }
        selected.extend(round);
    }
}

/// The candidates outside of schemas that are already selected. The holders are the tools and the
/// selected schemas.
fn candidates<'a>(
    holders: &'a [Holder],
    numbers: &Numbers,
    selected: &[(SharedId<'a>, Occurrences<'a>)],
    tools: usize,
) -> BTreeMap<SharedId<'a>, Occurrences<'a>> {
    let known: BTreeSet<_> = selected.iter().map(|(key, _)| *key).collect();
    let mut found: BTreeMap<SharedId<'a>, Occurrences<'a>> = BTreeMap::new();
    let mut add = |key: SharedId<'a>, schema: &'a Value, holder: usize, suggested_name: String| {
        let new = || Occurrences { schema, suggested_name, holders: BTreeSet::new() };
        found.entry(key).or_insert_with(new).holders.insert(holder);
    };
    for holder in holders {
        let (targets, dialect) = (holder.targets(), holder.dialect.as_deref());
        walk(&holder.schema, &mut Vec::new(), &mut |schema, path| {
            let Some(number) = numbers.candidate(schema) else { return true };
            if known.contains(&(dialect, number)) {
                return false;
            }
            if !is_entered(&targets, path) {
                add((dialect, number), schema, holder.tool, suggested_name(holder, schema, path));
            }
            true
        });
    }
    for (i, ((dialect, _), outer)) in selected.iter().enumerate() {
        walk_inside(outer.schema, &mut Vec::new(), &mut |schema, path| {
            let Some(number) = numbers.candidate(schema) else { return true };
            if known.contains(&(*dialect, number)) {
                return false;
            }
            add((*dialect, number), schema, tools + i, title(schema, path));
            true
        });
    }
    found
}

/// The candidates inside a schema.
fn inner_candidates<'a>(
    key: &SharedId<'a>,
    schema: &Value,
    numbers: &Numbers,
) -> Vec<SharedId<'a>> {
    let mut found = Vec::new();
    walk_inside(schema, &mut Vec::new(), &mut |inner, _| {
        found.extend(numbers.candidate(inner).map(|number| (key.0, number)));
        true
    });
    found
}

/// A name for a schema from its title, its property, or its tool.
fn suggested_name(holder: &Holder, schema: &Value, path: &[String]) -> String {
    if path.is_empty() && schema.get("title").and_then(Value::as_str).is_none() {
        let role = if holder.field == "inputSchema" { "input" } else { "output" };
        return format!("{}_{role}", holder.name);
    }
    title(schema, path)
}

fn title(schema: &Value, path: &[String]) -> String {
    let title = schema.get("title").and_then(Value::as_str);
    if let Some(title) = title.filter(|title| title.len() <= 64) {
        return title.to_owned();
    }
    let named = path.windows(2).rposition(|pair| {
        matches!(pair[0].as_str(), "properties" | "$defs" | "definitions" | "dependentSchemas")
    });
    let Some(at) = named else { return "Object".to_owned() };
    let is_item = path[at + 2..].iter().any(|step| step == "items" || step == "prefixItems");
    if is_item { format!("{}_item", path[at + 1]) } else { path[at + 1].clone() }
}

/// The content of a value by the numbers of its parts.
#[derive(PartialEq, Eq, Hash)]
enum Content {
    Plain(String),
    Array(Vec<u32>),
    Object(Vec<(String, u32)>),
}

/// The numbers of values; equal values have equal numbers. Values are identified by address, so
/// they must not move.
#[derive(Default)]
struct Numbers {
    by_content: HashMap<Content, u32>,
    by_address: HashMap<*const Value, u32>,
    /// For each number, whether nothing in the value references its own document.
    closed: Vec<bool>,
}

impl Numbers {
    fn number(&mut self, value: &Value) -> u32 {
        let (content, closed) = match value {
            Value::Array(items) => {
                let parts: Vec<_> = items.iter().map(|item| self.number(item)).collect();
                let closed = parts.iter().all(|part| self.is_closed(*part));
                (Content::Array(parts), closed)
            }
            Value::Object(map) => {
                let member = |(name, value): (&String, &Value)| (name.clone(), self.number(value));
                let parts: Vec<_> = map.iter().map(member).collect();
                let own = map.get("$ref").and_then(Value::as_str);
                let closed = parts.iter().all(|(_, part)| self.is_closed(*part))
                    && own.is_none_or(is_registered);
                (Content::Object(parts), closed)
            }
            plain => (Content::Plain(plain.to_string()), true),
        };
        let next = u32::try_from(self.closed.len()).unwrap_or(u32::MAX);
        let number = *self.by_content.entry(content).or_insert(next);
        if number == next {
            self.closed.push(closed);
        }
        self.by_address.insert(std::ptr::from_ref(value), number);
        number
    }

    fn is_closed(&self, number: u32) -> bool {
        self.closed.get(number as usize).copied().unwrap_or_default()
    }

    fn find(&self, value: &Value) -> Option<u32> {
        self.by_address.get(&std::ptr::from_ref(value)).copied()
    }

    /// The number of a self-contained schema that is large enough to share.
    fn candidate(&self, schema: &Value) -> Option<u32> {
        let properties = schema.get("properties")?.as_object()?;
        let number = self.find(schema)?;
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        (is_object && properties.len() >= PROPERTIES && self.is_closed(number)).then_some(number)
    }
}
