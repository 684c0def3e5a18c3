//! Whether two nodes demand the same, word for word apart from annotations, references followed.
//!
//! Most of a new version is what the old one was, and needs no proof. Recursion is no trouble: what
//! differs nowhere that it leads to is the same. Even one node may demand two things, where a
//! `$dynamicRef` in it hangs on the document that led there.

use std::{collections::HashSet, rc::Rc};

use super::{
    arena::Id,
    prover::{Prover, Stop},
    rules::Rules,
};

impl Prover<'_> {
    /// Whether the one accepts exactly what the other accepts, because they look alike.
    pub(super) fn is_same(&mut self, one: Id, other: Id) -> Result<bool, Stop> {
        // Pairs that must be the same, each with the place of the pair that it follows from.
        let mut pairs = vec![((one, other), 0)];
        let mut assumed = HashSet::from([(one, other)]);
        let mut next = 0;
        while let Some(&((one, other), _)) = pairs.get(next) {
            let parts = match self.same.get(&(one, other)) {
                Some(true) => Some(Vec::new()),
                Some(false) => None,
                None => self.if_alike(one, other)?,
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

    /// The parts that must be the same too, unless the nodes themselves differ.
    fn if_alike(&mut self, one: Id, other: Id) -> Result<Option<Vec<(Id, Id)>>, Stop> {
        let (a, b) = (self.arena.rules(one), self.arena.rules(other));
        self.step(1 + (a.size() + b.size()) / 4)?;
        let (mine, theirs) = (parts(&a), parts(&b));
        let is_opaque = !a.opaque.iter().all(|opaque| self.arena.is_fixed(opaque));
        // What is hidden may be different.
        if is_opaque || a.hides || b.hides || mine.len() != theirs.len() || bare(&a) != bare(&b) {
            return Ok(None);
        }
        Ok(Some(mine.into_iter().zip(theirs).collect()))
    }

    /// This pair differs, and so do all that it follows from.
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

/// The schemas that a node applies, in the order of its rules.
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

/// The rules with every schema replaced by the same one: what is left are words and numbers, and
/// which schemas there are.
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
