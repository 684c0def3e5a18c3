//! Structural equality of two nodes, ignoring annotations and following references.
//!
//! Most of a new version is unchanged and needs no proof. The check is coinductive: recursive
//! schemas are equal if no difference is reachable. A node with a `$dynamicRef` may even differ
//! from itself, because its meaning depends on the referring document.
//! `$dynamicRef` in it hangs on the document that led there.

use std::{collections::HashSet, rc::Rc};

use super::{
    arena::Id,
    prover::{Prover, Stop},
    rules::Rules,
};

impl Prover<'_> {
    /// Whether two nodes accept the same values because they are structurally equal.
    pub(super) fn is_same(&mut self, one: Id, other: Id) -> Result<bool, Stop> {
        // Pairs that must be equal, each with the index of the pair that implies it.
        let mut pairs = vec![((one, other), 0)];
        let mut assumed = HashSet::from([(one, other)]);
        let mut next = 0;
        while let Some(&((one, other), _)) = pairs.get(next) {
            let parts = match self.same.get(&(one, other)) {
                Some(true) => Some(Vec::new()),
                Some(false) => None,
                None => self.compare_shallow(one, other)?,
            };
            let Some(parts) = parts else {
                self.differ(&pairs, next);
                return Ok(false);
            };
            pairs.extend(parts.into_iter().filter(|pair| assumed.insert(*pair)).map(|p| (p, next)));
            next += 1;
        }
        self.same.extend(pairs.into_iter().map(|(pair, _)| (pair, true)));
        Ok(true)
    }

    /// The pairs of parts that must be equal; `None` if the nodes themselves differ.
    fn compare_shallow(&mut self, one: Id, other: Id) -> Result<Option<Vec<(Id, Id)>>, Stop> {
        let (a, b) = (self.arena.rules(one), self.arena.rules(other));
        self.step(1 + (a.size() + b.size()) / 4)?;
        let (mine, theirs) = (parts(&a), parts(&b));
        let is_opaque = !a.opaque.iter().all(|opaque| self.arena.is_fixed(opaque));
        // Hidden keywords may differ.
        if is_opaque || a.hides || b.hides || mine.len() != theirs.len() || bare(&a) != bare(&b) {
            return Ok(None);
        }
        Ok(Some(mine.into_iter().zip(theirs).collect()))
    }

    /// Marks this pair and all pairs that depend on it as different.
    fn differ(&mut self, pairs: &[((Id, Id), usize)], mut at: usize) {
        while let Some((pair, from)) = pairs.get(at) {
            self.same.insert(*pair, false);
            if at == *from {
                break;
            }
            at = *from;
        }
    }
}

/// The subschemas of a node in the order of its rules.
fn parts(rules: &Rules) -> Vec<Id> {
    let mut found: Vec<Id> = rules.properties.values().copied().collect();
    found.extend(rules.patterns.iter().map(|(_, id)| *id));
    found.extend(rules.dependent.iter().map(|(_, id)| *id));
    found.extend(rules.all.iter().map(|(_, id)| *id));
    found.extend(rules.prefix.iter().chain(&rules.any).chain(&rules.one).copied());
    found.extend(rules.contains.map(|contains| contains.schema));
    if let Some(conditional) = rules.conditional {
        found.push(conditional.condition);
        found.extend(conditional.then.into_iter().chain(conditional.otherwise));
    }
    let single = [rules.additional, rules.names, rules.items, rules.not];
    let unevaluated = [rules.unevaluated_properties, rules.unevaluated_items];
    found.extend(single.into_iter().chain(unevaluated).flatten());
    found
}

/// The rules with every subschema replaced by the same id, so that only literals and structure
/// remain.
fn bare(rules: &Rc<Rules>) -> Rules {
    let mut bare = (**rules).clone();
    bare.properties.values_mut().for_each(|id| *id = 0);
    bare.patterns.iter_mut().chain(&mut bare.dependent).for_each(|(_, id)| *id = 0);
    bare.all.iter_mut().for_each(|(_, id)| *id = 0);
    bare.prefix.iter_mut().chain(&mut bare.any).chain(&mut bare.one).for_each(|id| *id = 0);
    if let Some(contains) = &mut bare.contains {
        contains.schema = 0;
    }
    if let Some(conditional) = &mut bare.conditional {
        conditional.condition = 0;
        for branch in [&mut conditional.then, &mut conditional.otherwise] {
            *branch = branch.map(|_| 0);
        }
    }
    for single in [
        &mut bare.additional,
        &mut bare.names,
        &mut bare.items,
        &mut bare.not,
        &mut bare.unevaluated_properties,
        &mut bare.unevaluated_items,
    ] {
        *single = single.map(|_| 0);
    }
    bare
}
