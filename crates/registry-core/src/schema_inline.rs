//! Inlining of references: a normal form that makes schemas with the same content equal,
//! regardless of how they use definitions.
//!
//! Equal normal forms accept the same values. The form is for comparison only and not for
//! validation: a `$ref` with siblings contains its target as an object.

use std::collections::BTreeSet;

use schema_compat::{
    json_schema::{MemberContent, each_object, member_content, reference_of},
    pointer::pointer_join,
};
use serde_json::{Map, Value};

use crate::reference::{Key, SchemaRef};

/// Maximum number of values in a normal form, because references can multiply.
const VALUES: usize = 200_000;
/// Maximum number of values in the normal forms of all schemas of one server.
const VALUES_OF_SERVER: usize = 1_000_000;
/// Maximum nesting of references.
const DEPTH: usize = 64;

/// Looks up the JSON Schema of a registered schema.
pub type Resolve<'a> = &'a dyn Fn(&Key) -> Option<&'a Value>;

/// A shared limit for several normal forms, because references can multiply in each of them.
#[derive(Debug)]
pub struct InlineBudget {
    /// Remaining values.
    left: usize,
}

impl InlineBudget {
    /// The limit for all tools of one server.
    pub fn for_server() -> Self {
        Self { left: VALUES_OF_SERVER }
    }
}

/// The normal form of a schema; `None` if it is too large, a reference is unresolved, or the budget
/// is exhausted.
pub fn inlined(schema: &Value, resolve: Resolve<'_>, budget: &mut InlineBudget) -> Option<Value> {
    let given = VALUES.min(budget.left);
    let mut inliner = Inliner { resolve, left: given, open: Vec::new() };
    let form = inliner.resource(schema);
    budget.left -= given - inliner.left;
    form
}

/// The replacement of a reference.
enum Reference {
    /// The inlined target.
    Is(Value),
    /// The reference stays, because it is recursive or unknown.
    Stays,
}

struct Inliner<'a> {
    resolve: Resolve<'a>,
    left: usize,
    /// The references being inlined: schema and pointer.
    open: Vec<(*const Value, String)>,
}

impl Inliner<'_> {
    /// Inlines a schema that is a document of its own.
    fn resource(&mut self, root: &Value) -> Option<Value> {
        let mut form = self.schema(root, root)?;
        if let Value::Object(map) = &mut form {
            map.remove("$schema");
            remove_unused(map);
        }
        Some(form)
    }

    fn schema(&mut self, value: &Value, root: &Value) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        match value {
            Value::Object(map) => self.object(map, root),
            Value::Array(items) => items
                .iter()
                .map(|item| self.schema(item, root))
                .collect::<Option<_>>()
                .map(Value::Array),
            other => Some(other.clone()),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, root: &Value) -> Option<Value> {
        let mut form = Map::new();
        if let Some(reference) = reference_of(map)
            && let Reference::Is(target) = self.target(reference, root)?
        {
            if map.len() == 1 {
                return Some(target);
            }
            form.insert("$ref".to_owned(), target);
        }
        for (name, value) in map {
            if form.contains_key(name) {
                continue;
            }
            let value = match (member_content(name), value) {
                (MemberContent::Data, _) => value.clone(),
                (MemberContent::Named, Value::Object(named)) => self.named(named, root)?,
                _ => self.schema(value, root)?,
            };
            form.insert(name.clone(), value);
        }
        Some(Value::Object(form))
    }

    fn named(&mut self, named: &Map<String, Value>, root: &Value) -> Option<Value> {
        let member =
            |(name, value): (&String, &Value)| Some((name.clone(), self.schema(value, root)?));
        named.iter().map(member).collect::<Option<Map<_, _>>>().map(Value::Object)
    }

    /// The replacement of a reference; `None` if it is unresolved.
    fn target(&mut self, reference: &str, root: &Value) -> Option<Reference> {
        if let Some(registered) = SchemaRef::parse(reference) {
            let key = registered.ok()?;
            let schema = (self.resolve)(key.key())?;
            return self.within(schema, "", |inliner| inliner.resource(schema));
        }
        let Some(pointer) = reference.strip_prefix('#').and_then(fragment_pointer) else {
            return Some(Reference::Stays);
        };
        let Some(target) = root.pointer(&pointer) else { return Some(Reference::Stays) };
        self.within(root, &pointer, |inliner| inliner.schema(target, root))
    }

    fn within(
        &mut self,
        schema: &Value,
        pointer: &str,
        inline: impl FnOnce(&mut Self) -> Option<Value>,
    ) -> Option<Reference> {
        let place = (std::ptr::from_ref(schema), pointer.to_owned());
        if self.open.contains(&place) {
            return Some(Reference::Stays);
        }
        if self.open.len() >= DEPTH {
            return None;
        }
        self.open.push(place);
        let form = inline(self);
        self.open.pop();
        form.map(Reference::Is)
    }
}

/// Removes unreferenced definitions. Only recursive ones are still needed.
fn remove_unused(schema: &mut Map<String, Value>) {
    let definitions = ["$defs", "definitions"].map(|keyword| (keyword, schema.remove(keyword)));
    let mut waiting = Vec::new();
    let mut needed: BTreeSet<String> = BTreeSet::new();
    local_references(&Value::Object(schema.clone()), &mut waiting);
    while let Some(reference) = waiting.pop() {
        for (keyword, members) in &definitions {
            for (name, member) in members.iter().filter_map(Value::as_object).flatten() {
                let place = format!("#{}", pointer_join(&format!("/{keyword}"), name));
                let rest = reference.strip_prefix(&place);
                if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    && needed.insert(place)
                {
                    local_references(member, &mut waiting);
                }
            }
        }
    }
    for (keyword, members) in definitions {
        let Some(Value::Object(mut members)) = members else { continue };
        members.retain(|name, _| {
            needed.contains(&format!("#{}", pointer_join(&format!("/{keyword}"), name)))
        });
        if !members.is_empty() {
            schema.insert(keyword.to_owned(), Value::Object(members));
        }
    }
}

fn local_references(schema: &Value, found: &mut Vec<String>) {
    each_object(schema, &mut |map| {
        let fragment = reference_of(map).and_then(|text| text.strip_prefix('#'));
        let pointer = fragment.and_then(fragment_pointer);
        found.extend(pointer.map(|pointer| format!("#{pointer}")));
    });
}

/// The JSON pointer in a fragment; `None` for an anchor.
pub fn fragment_pointer(fragment: &str) -> Option<String> {
    if !fragment.is_empty() && !fragment.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let code = digit()? * 16 + digit()?;
            bytes.push(u8::try_from(code).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form_of(schema: &Value, resolve: Resolve<'_>) -> Option<Value> {
        inlined(schema, resolve, &mut InlineBudget::for_server())
    }

    fn bomb() -> Value {
        let mut defs = Map::new();
        for i in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            defs.insert(format!("d{i}"), json!({ "allOf": [next, next] }));
        }
        defs.insert("d40".to_owned(), json!({ "type": "null" }));
        json!({ "$defs": defs, "$ref": "#/$defs/d0" })
    }

    #[test]
    fn inline_replaces_references() {
        let point = json!({ "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": { "x": { "$ref": "#/definitions/N" } },
            "definitions": { "N": { "type": "number" } } });
        let schema = json!({
            "$defs": { "a b": { "$ref": "#P:1.0.0" } },
            "items": [{ "$ref": "#/$defs/a%20b" }, { "$ref": "#P:1.0.0", "title": "T" }],
            "const": { "$ref": "#P:1.0.0" },
        });
        let form = form_of(&schema, &|_| Some(&point)).unwrap();
        let target = form["items"][0].clone();
        assert_eq!(target["properties"], json!({ "x": { "type": "number" } }));
        assert_eq!(form["items"][1], json!({ "$ref": target, "title": "T" }));
        assert_eq!(form["const"], json!({ "$ref": "#P:1.0.0" }));
        assert!(form.get("$defs").is_none() && target.get("$schema").is_none());
        assert_eq!(form_of(&schema, &|_| None), None);
    }

    #[test]
    fn inline_keeps_recursion_and_limits_growth() {
        let list = json!({ "$defs": { "L": { "properties": { "next": { "$ref": "#/$defs/L" } } } },
            "$ref": "#/$defs/L" });
        let form = form_of(&list, &|_| None).unwrap();
        assert!(form["$defs"]["L"].is_object(), "{form}");
        let with_more = json!({ "$defs": { "L": list["$defs"]["L"], "M": {} },
            "$ref": "#/$defs/L" });
        assert_eq!(form_of(&with_more, &|_| None), Some(form));
        let bomb = bomb();
        assert_eq!(form_of(&bomb, &|_| None), None);
    }

    #[test]
    fn inline_budget_is_shared() {
        let bomb = bomb();
        let mut budget = InlineBudget::for_server();
        for _ in 0..VALUES_OF_SERVER / VALUES {
            assert_eq!(inlined(&bomb, &|_| None, &mut budget), None);
        }
        assert_eq!(budget.left, 0);
        assert_eq!(inlined(&json!({ "type": "string" }), &|_| None, &mut budget), None);
    }
}
