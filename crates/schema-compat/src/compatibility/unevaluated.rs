//! `unevaluatedProperties` and `unevaluatedItems` expressed as `additionalProperties` and `items`
//! of a synthetic node.
//!
//! The evaluated parts may depend on the value, so there are two readings: the strict one counts
//! only what is evaluated for every value, the loose one everything that may be evaluated.

use std::collections::BTreeSet;

use super::{
    arena::{Dialect, Id},
    prover::{Prover, Stop},
    rules::Rules,
};

/// The parts that the keywords of a node evaluate.
#[derive(Default)]
struct Evaluated {
    all_properties: bool,
    names: BTreeSet<String>,
    patterns: BTreeSet<String>,
    all_items: bool,
    prefix: usize,
}

impl Prover<'_> {
    /// The meaning of the node's `unevaluatedProperties`; `None` if absent.
    pub(super) fn unevaluated_properties(
        &mut self,
        node: Id,
        is_strict: bool,
    ) -> Result<Option<Id>, Stop> {
        let key = (node, true, is_strict);
        if let Some(known) = self.evaluated.get(&key) {
            return Ok(*known);
        }
        let rules = self.arena.rules(node);
        let evaluated = self.evaluated_by(node, is_strict)?;
        let meaning = rules.unevaluated_properties.filter(|_| !evaluated.all_properties);
        let meaning = meaning.map(|schema| {
            let anything = self.arena.synthetic(node, Rules::default());
            let named = evaluated.names.into_iter().map(|name| (name, anything));
            let patterns = evaluated.patterns.into_iter().map(|pattern| (pattern, anything));
            let rules = Rules {
                properties: named.collect(),
                patterns: patterns.collect(),
                additional: Some(schema),
                stands_for: Some("unevaluatedProperties"),
                ..Rules::default()
            };
            self.arena.synthetic(node, rules)
        });
        self.evaluated.insert(key, meaning);
        Ok(meaning)
    }

    /// The meaning of the node's `unevaluatedItems`; `None` if absent.
    pub(super) fn unevaluated_items(
        &mut self,
        node: Id,
        is_strict: bool,
    ) -> Result<Option<Id>, Stop> {
        let key = (node, false, is_strict);
        if let Some(known) = self.evaluated.get(&key) {
            return Ok(*known);
        }
        let rules = self.arena.rules(node);
        let evaluated = self.evaluated_by(node, is_strict)?;
        let meaning = rules.unevaluated_items.filter(|_| !evaluated.all_items);
        let meaning = meaning.map(|schema| {
            let anything = self.arena.synthetic(node, Rules::default());
            let rules = Rules {
                prefix: vec![anything; evaluated.prefix],
                items: Some(schema),
                stands_for: Some("unevaluatedItems"),
                ..Rules::default()
            };
            self.arena.synthetic(node, rules)
        });
        self.evaluated.insert(key, meaning);
        Ok(meaning)
    }

    fn evaluated_by(&mut self, node: Id, is_strict: bool) -> Result<Evaluated, Stop> {
        let mut evaluated = Evaluated::default();
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![node]);
        while let Some(next) = waiting.pop() {
            if !seen.insert(next) {
                continue;
            }
            let rules = self.arena.rules(next);
            self.step(1 + rules.size() / 2)?;
            evaluated.names.extend(rules.properties.keys().cloned());
            evaluated.patterns.extend(rules.patterns.iter().map(|(pattern, _)| pattern.clone()));
            evaluated.prefix = evaluated.prefix.max(rules.prefix.len());
            evaluated.all_properties |= rules.additional.is_some();
            evaluated.all_items |= rules.items.is_some();
            if next != node {
                evaluated.all_properties |= rules.unevaluated_properties.is_some();
                evaluated.all_items |= rules.unevaluated_items.is_some();
            }
            waiting.extend(rules.all.iter().map(|(_, schema)| *schema));
            if !is_strict {
                waiting.extend(conditional_schemas(&rules));
                // Items that match `contains` count as evaluated at any position.
                evaluated.all_items |= rules.contains.is_some();
                // Validators consider siblings of a draft 7 `$ref`, although they have no effect.
                let is_open =
                    !rules.opaque.is_empty() || self.arena.dialect(next) == Dialect::Draft7;
                evaluated.all_items |= is_open;
                evaluated.all_properties |= is_open;
            }
        }
        Ok(evaluated)
    }
}

/// The schemas of the same value that apply only to some values.
fn conditional_schemas(rules: &Rules) -> Vec<Id> {
    let mut found: Vec<Id> = rules.any.iter().chain(&rules.one).copied().collect();
    found.extend(rules.dependent.iter().map(|(_, id)| *id));
    if let Some(conditional) = rules.conditional {
        found.push(conditional.condition);
        found.extend(conditional.then.into_iter().chain(conditional.otherwise));
    }
    found
}
