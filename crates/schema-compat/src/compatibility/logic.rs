//! Keywords that combine schemas of the same value: `allOf`, `$ref`, `anyOf`, `oneOf`, `not`, `if`,
//! and the unevaluated keywords.

use super::{
    arena::Id,
    prover::{CANDIDATES, Failure, Goal, Prover, Stop},
    rules::{Conditional, Types},
    value_set::Facts,
};

impl Prover<'_> {
    pub(super) fn logic(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let rules = self.arena.rules(goal.wanted);
        for (_, schema) in &rules.all {
            let goal = self.sibling(goal, goal.given.clone(), *schema);
            failures.extend(self.prove(&goal)?);
        }
        if !rules.any.is_empty() {
            failures.extend(self.any_of(goal, &rules.any)?);
        }
        if !rules.one.is_empty() {
            failures.extend(self.one_of(goal, &rules.one)?);
        }
        if let Some(not) = rules.not {
            failures.extend(self.not(goal, not)?);
        }
        if let Some(conditional) = rules.conditional {
            self.conditional(goal, conditional, failures)?;
        }
        for opaque in &rules.opaque {
            let is_given = facts.rules.iter().any(|(_, rules)| rules.opaque.contains(opaque));
            if !is_given || !self.arena.is_fixed(opaque) {
                let samples = self.samples(&goal.given)?;
                failures.push(self.failure(goal, opaque.keyword, samples));
            }
        }
        if rules.unevaluated_properties.is_some() && facts.types.has(Types::OBJECT) {
            let meaning = self.unevaluated_properties(goal.wanted, true)?;
            failures.extend(self.meaning(goal, meaning)?);
        }
        if rules.unevaluated_items.is_some() && facts.types.has(Types::ARRAY) {
            let meaning = self.unevaluated_items(goal.wanted, true)?;
            failures.extend(self.meaning(goal, meaning)?);
        }
        Ok(())
    }

    fn meaning(&mut self, goal: &Goal, meaning: Option<Id>) -> Result<Vec<Failure>, Stop> {
        match meaning {
            Some(meaning) => {
                let goal = self.sibling(goal, goal.given.clone(), meaning);
                self.prove(&goal)
            }
            None => Ok(Vec::new()),
        }
    }

    fn any_of(&mut self, goal: &Goal, branches: &[Id]) -> Result<Vec<Failure>, Stop> {
        let mut all = Vec::new();
        for branch in branches {
            let branch = self.sibling(goal, goal.given.clone(), *branch);
            let failures = self.prove(&branch)?;
            if failures.is_empty() {
                return Ok(failures);
            }
            all.push(failures);
        }
        Ok(vec![self.combine_branch_failures(goal, "anyOf", all)?])
    }

    /// One branch accepts everything, and no other branch accepts any of it.
    fn one_of(&mut self, goal: &Goal, branches: &[Id]) -> Result<Vec<Failure>, Stop> {
        let mut all = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            let wanted = self.sibling(goal, goal.given.clone(), *branch);
            let failures = self.prove(&wanted)?;
            if !failures.is_empty() {
                all.push(failures);
                continue;
            }
            let mut both = Vec::new();
            for (_, other) in branches.iter().enumerate().filter(|(j, _)| *j != i) {
                let overlap = self.with(&goal.given, *other)?;
                if !self.is_empty(&overlap, goal.level)? {
                    both.extend(self.samples(&overlap)?);
                }
            }
            if both.is_empty() && self.is_exclusive(goal, branches, i)? {
                return Ok(Vec::new());
            }
            all.push(vec![self.failure(goal, "oneOf", both)]);
        }
        Ok(vec![self.combine_branch_failures(goal, "oneOf", all)?])
    }

    /// Whether no other branch accepts any given value.
    fn is_exclusive(&mut self, goal: &Goal, branches: &[Id], branch: usize) -> Result<bool, Stop> {
        for (_, other) in branches.iter().enumerate().filter(|(j, _)| *j != branch) {
            let overlap = self.with(&goal.given, *other)?;
            if !self.is_empty(&overlap, goal.level)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Combines the failures of all branches into one.
    fn combine_branch_failures(
        &mut self,
        goal: &Goal,
        keyword: &'static str,
        branches: Vec<Vec<Failure>>,
    ) -> Result<Failure, Stop> {
        let mut candidates = Vec::new();
        // Takes one candidate per branch first, so that each branch is represented.
        let mut each: Vec<_> = branches
            .into_iter()
            .map(|failures| failures.into_iter().flat_map(|f| f.candidates).take(CANDIDATES))
            .collect();
        while candidates.len() < 4 * CANDIDATES {
            let next: Vec<_> = each.iter_mut().filter_map(Iterator::next).collect();
            if next.is_empty() {
                break;
            }
            candidates.extend(next);
        }
        candidates.extend(self.samples(&goal.given)?);
        Ok(self.failure(goal, keyword, candidates))
    }

    fn not(&mut self, goal: &Goal, not: Id) -> Result<Vec<Failure>, Stop> {
        let refused = self.with(&goal.given, not)?;
        if self.is_empty(&refused, goal.level)? {
            return Ok(Vec::new());
        }
        for known in goal.given.nots.clone() {
            let given = self.given([not])?;
            if self.holds(&given, known, goal.level)? {
                return Ok(Vec::new());
            }
        }
        let samples = self.samples(&refused)?;
        Ok(vec![self.failure(goal, "not", samples)])
    }

    fn conditional(
        &mut self,
        goal: &Goal,
        conditional: Conditional,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        if let Some(then) = conditional.then {
            let given = self.with(&goal.given, conditional.condition)?;
            let goal = self.sibling(goal, given, then);
            failures.extend(self.prove(&goal)?);
        }
        if let Some(otherwise) = conditional.otherwise {
            let given = goal.given.clone().without(conditional.condition);
            let goal = self.sibling(goal, given, otherwise);
            failures.extend(self.prove(&goal)?);
        }
        Ok(())
    }
}
