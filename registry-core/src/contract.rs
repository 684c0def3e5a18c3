//! What a change means for those who rely on an entity: nothing, words only, more than before, or
//! something broken.
//!
//! Schemas are compared by their normal forms. Deliberately absent: proving that one schema accepts
//! what another one does; what is not the same but for its words counts as broken.

use serde_json::{Map, Value};

use crate::{
    entity::{Agent, Entity, Server, Tool},
    json_schema::map_objects,
    schema_inline::{Resolve, inlined},
};

/// What a change means, harmless ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing.
    Identical,
    /// Only texts for people and models.
    Words,
    /// Those who rely on it may go on.
    Compatible,
    /// Those who rely on it may fail.
    Breaking,
}

/// Whose side of a call a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What a caller may send: wider is compatible.
    Input,
    /// What a caller gets: narrower is compatible.
    Output,
}

/// A schema, and the registered ones that it refers to.
#[derive(Clone, Copy)]
pub struct Contract<'s, 'r> {
    /// The schema, if there is one.
    pub schema: Option<&'s Value>,
    /// Gives registered schemas.
    pub resolve: Resolve<'r>,
}

/// What it means that one schema takes the place of another.
pub fn classify_schema(old: Contract<'_, '_>, new: Contract<'_, '_>, side: Side) -> Change {
    let (before, after) = match (old.schema, new.schema) {
        (None, None) => return Change::Identical,
        // No schema is the widest.
        (Some(_), None) if side == Side::Input => return Change::Compatible,
        (None, Some(_)) if side == Side::Output => return Change::Compatible,
        (Some(_), None) | (None, Some(_)) => return Change::Breaking,
        (Some(before), Some(after)) => (before, after),
    };
    let forms = (inlined(before, old.resolve), inlined(after, new.resolve));
    let (Some(before), Some(after)) = forms else { return Change::Breaking };
    if before == after {
        Change::Identical
    } else if wordless(&before) == wordless(&after) {
        Change::Words
    } else {
        Change::Breaking
    }
}

/// The members of a schema that change nothing about what it accepts.
const WORDS: [&str; 7] =
    ["$comment", "default", "deprecated", "description", "examples", "readOnly", "title"];

fn wordless(schema: &Value) -> Value {
    map_objects(schema, &mut |map: &mut Map<String, Value>| {
        map.retain(|name, _| !WORDS.contains(&name.as_str()));
        // The order of these says nothing.
        for name in ["required", "enum", "type"] {
            if let Some(Value::Array(items)) = map.get_mut(name) {
                items.sort_by_key(ToString::to_string);
            }
        }
    })
}

/// What it means that one entity takes the place of another of its name. Both resolve schemas.
pub fn classify(old: (&Entity, Resolve<'_>), new: (&Entity, Resolve<'_>)) -> Change {
    let change = Compare { old: old.1, new: new.1 };
    let found = match (old.0, new.0) {
        (Entity::Schema(before), Entity::Schema(after)) => {
            change.of(Some(&before.schema), Some(&after.schema), Side::Input)
        }
        (Entity::Tool(before), Entity::Tool(after)) => tool(before, after, &change),
        (Entity::Server(before), Entity::Server(after)) => server(before, after),
        (Entity::Agent(before), Entity::Agent(after)) => agent(before, after, &change),
        _ => Change::Breaking,
    };
    if found == Change::Identical && old.0 != new.0 { Change::Words } else { found }
}

/// What resolves the references of both.
struct Compare<'o, 'n> {
    old: Resolve<'o>,
    new: Resolve<'n>,
}

impl Compare<'_, '_> {
    fn of(&self, before: Option<&Value>, after: Option<&Value>, side: Side) -> Change {
        let old = Contract { schema: before, resolve: self.old };
        classify_schema(old, Contract { schema: after, resolve: self.new }, side)
    }
}

fn tool(before: &Tool, after: &Tool, change: &Compare<'_, '_>) -> Change {
    let input = change.of(before.input_schema.as_ref(), after.input_schema.as_ref(), Side::Input);
    let output =
        change.of(before.output_schema.as_ref(), after.output_schema.as_ref(), Side::Output);
    input.max(output)
}

fn server(before: &Server, after: &Server) -> Change {
    let keeps = |old: &Server, new: &Server| {
        old.provides.iter().all(|p| new.provides.iter().any(|other| other.tool == p.tool))
    };
    match (keeps(before, after), keeps(after, before)) {
        (false, _) => Change::Breaking,
        (true, false) => Change::Compatible,
        (true, true) => Change::Identical,
    }
}

fn agent(before: &Agent, after: &Agent, change: &Compare<'_, '_>) -> Change {
    let mut worst = Change::Identical;
    for skill in &before.skills {
        let Some(same) = after.skill(&skill.id) else { return Change::Breaking };
        let input = change.of(skill.input_schema.as_ref(), same.input_schema.as_ref(), Side::Input);
        let output =
            change.of(skill.output_schema.as_ref(), same.output_schema.as_ref(), Side::Output);
        worst = worst.max(input).max(output);
    }
    if after.skills.iter().any(|skill| before.skill(&skill.id).is_none()) {
        worst = worst.max(Change::Compatible);
    }
    worst
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(old: &Value, new: &Value) -> Change {
        let contract = |schema| Contract { schema: Some(schema), resolve: &|_| None };
        classify_schema(contract(old), contract(new), Side::Input)
    }

    #[test]
    fn words_and_order_break_nothing() {
        let old = json!({ "type": ["string", "null"], "title": "A", "required": ["b", "a"] });
        assert_eq!(change(&old, &old), Change::Identical);
        let new = json!({ "type": ["null", "string"], "description": "B", "required": ["a", "b"] });
        assert_eq!(change(&old, &new), Change::Words);
        let named = json!({ "properties": { "title": { "type": "string" } } });
        assert_eq!(change(&named, &json!({ "properties": {} })), Change::Breaking);
        assert_eq!(
            change(&json!({ "const": { "title": 1 } }), &json!({ "const": {} })),
            Change::Breaking
        );
    }

    #[test]
    fn no_schema_is_the_widest() {
        let contract = |schema| Contract { schema, resolve: &|_| None };
        let any = json!({});
        let between = |old, new, side| classify_schema(contract(old), contract(new), side);
        assert_eq!(between(None, None, Side::Input), Change::Identical);
        assert_eq!(between(Some(&any), None, Side::Input), Change::Compatible);
        assert_eq!(between(Some(&any), None, Side::Output), Change::Breaking);
        assert_eq!(between(None, Some(&any), Side::Input), Change::Breaking);
        assert_eq!(between(None, Some(&any), Side::Output), Change::Compatible);
    }
}
