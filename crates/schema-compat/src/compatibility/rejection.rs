//! Finds the keyword of a schema object that rejects a value, for messages.
//!
//! Keywords are tried individually. Keywords that depend on others (`additionalProperties`) are
//! tried after and together with them.

use serde_json::Value;

use super::{
    arena::Id,
    prover::{Prover, Stop},
    rules::{Conditional, Contains, Range, Rules},
};

/// Extracts the constraint of one keyword.
type Part = fn(&Rules) -> Rules;

/// Keywords that occur once per schema object, with their constraints.
const PARTS: [(&str, Part); 23] = [
    ("type", |all| Rules { types: all.types, ..Rules::default() }),
    ("multipleOf", |all| Rules { multiple_of: all.multiple_of, ..Rules::default() }),
    ("minLength", |all| Rules { length: at_least(all.length), ..Rules::default() }),
    ("maxLength", |all| Rules { length: all.length, ..Rules::default() }),
    ("pattern", |all| Rules { pattern: all.pattern.clone(), ..Rules::default() }),
    ("minItems", |all| Rules { count: at_least(all.count), ..Rules::default() }),
    ("maxItems", |all| Rules { count: all.count, ..Rules::default() }),
    ("uniqueItems", |all| Rules { is_unique: all.is_unique, ..Rules::default() }),
    ("prefixItems", |all| Rules { prefix: all.prefix.clone(), ..Rules::default() }),
    ("items", |all| Rules { prefix: all.prefix.clone(), items: all.items, ..Rules::default() }),
    ("contains", |all| Rules { contains: all.contains.map(without_max), ..Rules::default() }),
    ("maxContains", |all| Rules { contains: all.contains, ..Rules::default() }),
    ("minProperties", |all| Rules { size: at_least(all.size), ..Rules::default() }),
    ("maxProperties", |all| Rules { size: all.size, ..Rules::default() }),
    ("required", |all| Rules { required: all.required.clone(), ..Rules::default() }),
    ("properties", |all| Rules { properties: all.properties.clone(), ..Rules::default() }),
    ("patternProperties", |all| Rules { patterns: all.patterns.clone(), ..Rules::default() }),
    ("additionalProperties", |all| Rules { additional: all.additional, ..members(all) }),
    ("propertyNames", |all| Rules { names: all.names, ..Rules::default() }),
    ("anyOf", |all| Rules { any: all.any.clone(), ..Rules::default() }),
    ("oneOf", |all| Rules { one: all.one.clone(), ..Rules::default() }),
    ("not", |all| Rules { not: all.not, ..Rules::default() }),
    ("then", |all| Rules { conditional: all.conditional.map(without_else), ..Rules::default() }),
];

/// Keywords that depend on all others.
const LAST: [(&str, Part); 3] = [
    ("else", |all| Rules { conditional: all.conditional, ..Rules::default() }),
    ("unevaluatedItems", |all| Rules { unevaluated_properties: None, ..understood(all) }),
    ("unevaluatedProperties", understood),
];

fn at_least(range: Range) -> Range {
    Range { max: u64::MAX, ..range }
}

fn without_max(contains: Contains) -> Contains {
    Contains { max: None, ..contains }
}

fn without_else(conditional: Conditional) -> Conditional {
    Conditional { otherwise: None, ..conditional }
}

fn members(all: &Rules) -> Rules {
    let (properties, patterns) = (all.properties.clone(), all.patterns.clone());
    Rules { properties, patterns, ..Rules::default() }
}

fn understood(all: &Rules) -> Rules {
    Rules { opaque: Vec::new(), ..all.clone() }
}

impl Prover<'_> {
    /// The first keyword of the node that rejects the value, if known.
    pub(super) fn rejecting_keyword(
        &mut self,
        node: Id,
        value: &Value,
    ) -> Result<Option<&'static str>, Stop> {
        let rules = self.arena.rules(node);
        if self.arena.json(node) == Some(&Value::Bool(false)) {
            return Ok(self.arena.applied_by(node));
        }
        for (keyword, part) in parts(&rules) {
            self.step(rules.size() / 8)?;
            let part = self.arena.synthetic(node, part);
            if self.accepts(part, value)? == Some(false) {
                return Ok(Some(self.name_in_dialect(&rules, keyword)));
            }
        }
        Ok(None)
    }

    /// The keyword's name in the dialect of the schema.
    fn name_in_dialect(&self, rules: &Rules, keyword: &'static str) -> &'static str {
        let node = match keyword {
            "prefixItems" => rules.prefix.first(),
            "items" => rules.items.as_ref(),
            "dependentSchemas" => rules.dependent.first().map(|(_, schema)| schema),
            _ => None,
        };
        node.and_then(|node| self.arena.applied_by(*node)).unwrap_or(keyword)
    }
}

/// Each keyword with its constraint.
fn parts(rules: &Rules) -> impl Iterator<Item = (&'static str, Rules)> {
    let mut found: Vec<(&'static str, Rules)> = Vec::new();
    for one in &rules.values {
        found.push((one.0, Rules { values: vec![one.clone()], ..Rules::default() }));
    }
    for one in &rules.low {
        found.push((one.0, Rules { low: vec![*one], ..Rules::default() }));
    }
    for one in &rules.high {
        found.push((one.0, Rules { high: vec![*one], ..Rules::default() }));
    }
    for one in &rules.needs {
        found.push((one.0, Rules { needs: vec![one.clone()], ..Rules::default() }));
    }
    for one in &rules.all {
        found.push((one.0, Rules { all: vec![*one], ..Rules::default() }));
    }
    let dependent = Rules { dependent: rules.dependent.clone(), ..Rules::default() };
    found.push(("dependentSchemas", dependent));
    let once = |(keyword, part): (&'static str, Part)| (keyword, part(rules));
    PARTS.into_iter().map(once).chain(found).chain(LAST.into_iter().map(once))
}
