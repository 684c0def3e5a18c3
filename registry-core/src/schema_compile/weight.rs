//! How often a schema may be applied to one place of a value: what a hostile schema doubles with
//! every level of `allOf` and `$ref`.
//!
//! It is counted as if nothing ended early. Below the place itself, of alternatives (`anyOf`,
//! `oneOf`, `then`, `else`) only the heaviest counts: every tree of expressions leads back through
//! several, and a value that matches one of them early does not pay for the others. The value decides
//! the cost of ambiguous alternatives, and of the second pass of `unevaluatedProperties` and
//! `unevaluatedItems` over the schemas beside them: `metered.rs` bounds both.

mod read;

use std::collections::HashMap;

use read::Graph;
use serde_json::Value;

use super::problem::InvalidSchema;
use crate::{decode::At, json_schema::each_reference, limits, reference::Key};

/// How often a schema is applied: to the place itself, and at most to a place below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    here: u64,
    below: u64,
}

impl Weight {
    /// A schema that leads nowhere.
    pub(crate) const ONE: Self = Self { here: 1, below: 1 };
    /// A schema that is too heavy itself.
    pub(crate) const HEAVY: Self = Self { here: limits::SCHEMA_PATHS, below: limits::SCHEMA_PATHS };

    fn is_too_much(self) -> bool {
        self.here.max(self.below) > limits::SCHEMA_PATHS
    }
}

/// The weight of a schema, unless it is too much. `weight_of` gives that of a registered one.
pub(crate) fn weigh(
    schema: &Value,
    weight_of: &mut dyn FnMut(&Key) -> Weight,
) -> Result<Weight, InvalidSchema> {
    let graph = Graph::of(schema, weight_of);
    let order = graph.innermost_first()?;
    let mut weights = vec![Weight::ONE; graph.nodes.len()];
    for &node in &order {
        let same = graph.same_place(node).map(|other| weights[other].here);
        let own = graph.nodes[node].registered.iter().map(|weight| weight.here);
        weights[node].here = same.chain(own).fold(1, u64::saturating_add);
    }
    // Each round looks one level deeper into a value; no document is deeper than that.
    for _ in 0..limits::DOCUMENT_DEPTH {
        let mut is_settled = true;
        for &node in &order {
            let below = below(&graph, node, &weights);
            is_settled &= below == weights[node].below;
            weights[node].below = below;
        }
        let heavy = (0..weights.len()).find(|&node| weights[node].is_too_much());
        if let Some(node) = heavy {
            let pointer = graph.nodes[node].pointer.clone();
            return Err(InvalidSchema::TooManyPaths { pointer });
        }
        if is_settled {
            break;
        }
    }
    Ok(weights[0])
}

/// As [`weigh`], with the registered schemas that it leads to, each weighed once.
pub(super) fn weigh_with<'a>(
    schema: &Value,
    resolve: &dyn Fn(&Key) -> Option<&'a Value>,
) -> Result<Weight, InvalidSchema> {
    let needs = |schema: &Value| {
        let mut found = Vec::new();
        each_reference(schema, At::ROOT, &mut |key, _, _| {
            found.extend(key.ok().and_then(|key| Some((key.clone(), resolve(key)?))));
        });
        found
    };
    // `None`: not all that it needs is weighed yet. A circle leads nowhere here.
    let mut weights: HashMap<Key, Option<Weight>> = HashMap::new();
    let known = |weights: &HashMap<Key, Option<Weight>>, key: &Key| {
        weights.get(key).copied().flatten().unwrap_or(Weight::ONE)
    };
    let mut path = needs(schema);
    while let Some((key, value)) = path.last().cloned() {
        match weights.get(&key) {
            None => {
                weights.insert(key, None);
                path.extend(needs(value).into_iter().filter(|(key, _)| !weights.contains_key(key)));
                continue;
            }
            Some(None) => {
                let weight = weigh(value, &mut |key| known(&weights, key));
                weights.insert(key, Some(weight.unwrap_or(Weight::HEAVY)));
            }
            Some(Some(_)) => {}
        }
        path.pop();
    }
    weigh(schema, &mut |key| known(&weights, key))
}

/// How often a place below is met, as far as that is known by now.
fn below(graph: &Graph, node: usize, weights: &[Weight]) -> u64 {
    let read::Node { all, either, registered, parts, beside, unevaluated, .. } = &graph.nodes[node];
    let weight = |part: &usize| weights[*part].here.max(weights[*part].below);
    let sum = |list: &Vec<usize>| list.iter().map(weight).fold(0, u64::saturating_add);
    let one = parts.values().map(sum).max().unwrap_or(0);
    let mut below = one.saturating_add(sum(beside));
    below = all.iter().map(|other| weights[*other].below).fold(below, u64::saturating_add);
    below = registered.iter().map(|weight| weight.below).fold(below, u64::saturating_add);
    let heaviest = either.iter().map(|other| weights[*other].below).max();
    below = below.saturating_add(heaviest.unwrap_or(0));
    // Only places that nothing else applies to.
    below.max(sum(unevaluated))
}

#[cfg(test)]
mod tests;
