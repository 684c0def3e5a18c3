//! Detection of schemas that apply themselves to the same value. `{"not": {"$ref": "#"}}` has no
//! defined meaning, so such schemas are not compared.

use std::collections::HashMap;

use super::{
    arena::Id,
    prover::{Prover, Stop},
    rules::Rules,
};

impl Prover<'_> {
    /// A node on a cycle among the nodes reachable from the roots.
    pub(super) fn find_cycle(&mut self, roots: [Id; 2]) -> Result<Option<Id>, Stop> {
        let mut in_place: HashMap<Id, Vec<Id>> = HashMap::new();
        let mut waiting = roots.to_vec();
        while let Some(node) = waiting.pop() {
            if in_place.contains_key(&node) {
                continue;
            }
            let rules = self.arena.rules(node);
            let work = self.arena.take_work();
            self.step(1 + work)?;
            let same = in_place_schemas(&rules);
            waiting.extend(same.iter().copied().chain(child_schemas(&rules)));
            in_place.insert(node, same);
        }
        Ok(cycle_in(&in_place))
    }
}

/// The subschemas that apply to the value itself.
fn in_place_schemas(rules: &Rules) -> Vec<Id> {
    let mut found: Vec<Id> = rules.all.iter().map(|(_, id)| *id).collect();
    found.extend(rules.any.iter().chain(&rules.one).chain(&rules.not));
    found.extend(rules.dependent.iter().map(|(_, id)| *id));
    if let Some(conditional) = rules.conditional {
        found.push(conditional.condition);
        found.extend(conditional.then.into_iter().chain(conditional.otherwise));
    }
    found
}

/// The subschemas that apply to members and items.
fn child_schemas(rules: &Rules) -> Vec<Id> {
    let mut found: Vec<Id> = rules.properties.values().copied().collect();
    found.extend(rules.patterns.iter().map(|(_, id)| *id));
    found.extend(&rules.prefix);
    found.extend(rules.contains.map(|contains| contains.schema));
    let single = [rules.additional, rules.names, rules.items];
    let unevaluated = [rules.unevaluated_properties, rules.unevaluated_items];
    found.extend(single.into_iter().chain(unevaluated).flatten());
    found
}

/// Removes nodes without successors repeatedly, and returns a remaining node, if any.
fn cycle_in(edges: &HashMap<Id, Vec<Id>>) -> Option<Id> {
    let mut sources: HashMap<Id, Vec<Id>> = HashMap::new();
    let mut open: HashMap<Id, usize> = HashMap::new();
    for (from, targets) in edges {
        open.insert(*from, targets.len());
        for target in targets {
            sources.entry(*target).or_default().push(*from);
        }
    }
    let mut done: Vec<Id> =
        open.iter().filter(|(_, left)| **left == 0).map(|(id, _)| *id).collect();
    while let Some(node) = done.pop() {
        open.remove(&node);
        for source in sources.remove(&node).unwrap_or_default() {
            if let Some(left) = open.get_mut(&source) {
                *left -= 1;
                if *left == 0 {
                    done.push(source);
                }
            }
        }
    }
    open.into_keys().min()
}
