//! The number of paths from a schema to one location of a value. Hostile schemas double it at each
//! level of `allOf` and `$ref`.
//!
//! The count assumes no early termination. Below the location itself, only the heaviest of several
//! alternatives counts (`anyOf`, `oneOf`, `then`, `else`): recursive expression trees have many,
//! and a value that matches one does not pay for the others. The cost of ambiguous alternatives,
//! and of the second pass of `unevaluatedProperties` and `unevaluatedItems`, depends on the value
//! and is limited by `metered.rs`.

mod read;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use read::{Child, Graph};
use serde_json::Value;

use super::problem::InvalidSchema;
use crate::{json_schema::each_reference, limits, name::SchemaName, pointer::Location};

/// The number of applications to the location itself, and the maximum for a location below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    here: u64,
    below: u64,
}

impl Weight {
    /// A schema without subschemas.
    pub const ONE: Self = Self { here: 1, below: 1 };
    /// A schema that is too heavy itself.
    pub const HEAVY: Self = Self { here: limits::SCHEMA_PATHS, below: limits::SCHEMA_PATHS };

    fn is_too_much(self) -> bool {
        self.here.max(self.below) > limits::SCHEMA_PATHS
    }
}

/// Maximum number of additions in one round that distinguishes the children of a node.
const ADDITIONS: usize = 50_000;

/// The weight of a schema, or an error if it is too heavy. `weight_of` returns that of a named
/// schema if the name is valid.
pub fn weigh(
    schema: &Value,
    weight_of: &mut dyn FnMut(&SchemaName) -> Option<Weight>,
) -> Result<Weight, InvalidSchema> {
    let graph = Graph::build(schema, weight_of);
    let order = graph.innermost_first()?;
    let mut weights = vec![Weight::ONE; graph.nodes.len()];
    for &node in &order {
        let same = graph.same_place(node).map(|other| weights[other].here);
        let own = graph.nodes[node].registered.iter().map(|weight| weight.here);
        weights[node].here = same.chain(own).fold(1, u64::saturating_add);
    }
    let weighed = match deepen(&graph, &order, (weights.clone(), Children::Apart)) {
        Err(TooManyChildren) => deepen(&graph, &order, (weights, Children::AsOne)),
        weighed => weighed,
    };
    weighed.unwrap_or(Ok(Weight::HEAVY))
}

/// Whether children are counted individually. Otherwise the heaviest counts for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Children {
    Apart,
    AsOne,
}

/// There are too many children to distinguish.
struct TooManyChildren;

/// Descends one level into the value per round; no document is deeper than the limit.
fn deepen(
    graph: &Graph,
    order: &[usize],
    (mut weights, children): (Vec<Weight>, Children),
) -> Result<Result<Weight, InvalidSchema>, TooManyChildren> {
    let mut ways: Vec<Ways> = vec![Ways::new(); graph.nodes.len()];
    for _ in 0..limits::DOCUMENT_DEPTH {
        let (mut is_settled, mut additions) = (true, 0);
        for &node in order {
            ways[node] = below(graph, node, (&weights, &ways), children);
            additions += ways[node].len() * (1 + graph.same_place(node).count());
            if additions > ADDITIONS && children == Children::Apart {
                return Err(TooManyChildren);
            }
            let below = ways[node].values().copied().max().unwrap_or(0);
            is_settled &= below == weights[node].below;
            weights[node].below = below;
        }
        let heavy = (0..weights.len()).find(|&node| weights[node].is_too_much());
        if let Some(node) = heavy {
            let pointer = graph.nodes[node].pointer.clone();
            return Ok(Err(InvalidSchema::TooManyPaths { pointer }));
        }
        if is_settled {
            break;
        }
    }
    Ok(Ok(weights[0]))
}

/// Like [`weigh`], including the referenced registered schemas, each weighed once.
pub(super) fn weigh_with<'a>(
    schema: &Value,
    resolve: &dyn Fn(&SchemaName) -> Option<&'a Value>,
) -> Result<Weight, InvalidSchema> {
    let needs = |schema: &Value| {
        let mut found = Vec::new();
        each_reference(schema, Location::ROOT, &mut |name, _| {
            found.extend(resolve(&name).map(|schema| (name, schema)));
        });
        found
    };
    // `None` means in progress. A cycle counts as nothing here.
    let mut weights: HashMap<SchemaName, Option<Weight>> = HashMap::new();
    let known = |weights: &HashMap<SchemaName, Option<Weight>>, key: &SchemaName| {
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
                let weight = weigh(value, &mut |key| Some(known(&weights, key)));
                weights.insert(key, Some(weight.unwrap_or(Weight::HEAVY)));
            }
            Some(Some(_)) => {}
        }
        path.pop();
    }
    weigh(schema, &mut |key| Some(known(&weights, key)))
}

/// The number of paths from a schema to each child of a value.
type Ways = BTreeMap<Child, u64>;

/// The paths to a child, or to the other children of its kind.
fn ways_to(ways: &Ways, child: Child) -> u64 {
    let known = ways.get(&child).or_else(|| ways.get(&child.other()?));
    known.copied().unwrap_or(0)
}

/// The known number of paths to each child.
fn below(
    graph: &Graph,
    node: usize,
    (weights, ways): (&[Weight], &[Ways]),
    children: Children,
) -> Ways {
    let own = &graph.nodes[node];
    let weight = |part: &usize| weights[*part].here.max(weights[*part].below);
    let sum = |list: &[usize]| list.iter().map(weight).fold(0, u64::saturating_add);
    let registered = own.registered.iter().map(|weight| weight.below);
    let every = registered.fold(sum(&own.beside), u64::saturating_add);
    // Only children that no other schema of the node applies to.
    let unevaluated = sum(&own.unevaluated);
    let part = |child: Child| match children {
        Children::Apart => {
            let part = own.parts.get(&child).or_else(|| own.parts.get(&child.other()?));
            part.map_or(0, |part| sum(part))
        }
        Children::AsOne => {
            let of_kind = |other: &Child| other.other().unwrap_or(*other) == child;
            let parts = own.parts.iter().filter(|(other, _)| of_kind(other));
            parts.map(|(_, part)| sum(part)).max().unwrap_or(0)
        }
    };
    let mut all = BTreeSet::from([Child::OTHER_MEMBER, Child::OTHER_ITEM, Child::Name]);
    if children == Children::Apart {
        all.extend(own.parts.keys());
        all.extend(graph.same_place(node).flat_map(|other| ways[other].keys()));
    }
    let ways_of = |child: Child| {
        let patterns = own.patterns.iter().filter(|(pattern, _)| graph.may_match(pattern, child));
        let patterns = patterns.map(|(_, part)| weight(part));
        let all = own.all.iter().map(|other| ways_to(&ways[*other], child));
        let either = own.either.iter().map(|other| ways_to(&ways[*other], child)).max();
        let first = part(child).saturating_add(every);
        let found = patterns.chain(all).chain(either).fold(first, u64::saturating_add);
        (child, found.max(unevaluated))
    };
    all.into_iter().map(ways_of).collect()
}

#[cfg(test)]
mod tests;
