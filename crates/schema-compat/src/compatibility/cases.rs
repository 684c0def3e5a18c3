//! Case analysis over disjunctions: `anyOf`, `oneOf`, `if`, or types.

use super::{
    arena::Id,
    prover::{FAILURES, Failure, Goal, Prover, Stop},
    rules::Types,
    value_set::{Facts, Split, ValueSet},
};

impl Prover<'_> {
    /// The cases of the first disjunction that is not split yet.
    pub(super) fn cases(
        &mut self,
        given: &ValueSet,
        facts: &Facts,
    ) -> Result<Option<Vec<ValueSet>>, Stop> {
        for (node, rules) in &facts.rules {
            let node = *node;
            if !rules.any.is_empty() && !given.done.contains(&(node, Split::Any)) {
                let rest = given.clone().split(node, Split::Any);
                return rules
                    .any
                    .iter()
                    .map(|case| self.with(&rest, *case))
                    .collect::<Result<_, _>>()
                    .map(Some);
            }
            if !rules.one.is_empty() && !given.done.contains(&(node, Split::One)) {
                let rest = given.clone().split(node, Split::One);
                return self.cases_of_one(&rest, &rules.one).map(Some);
            }
            if let Some(conditional) = rules.conditional
                && !given.done.contains(&(node, Split::If))
            {
                let rest = given.clone().split(node, Split::If);
                let mut yes = self.with(&rest, conditional.condition)?;
                if let Some(then) = conditional.then {
                    yes = self.with(&yes, then)?;
                }
                let mut no = rest.without(conditional.condition);
                if let Some(otherwise) = conditional.otherwise {
                    no = self.with(&no, otherwise)?;
                }
                return Ok(Some(vec![yes, no]));
            }
        }
        let types: Vec<Types> = facts.types.each().collect();
        let split = |one: &Types| given.clone().with_types(*one);
        Ok((types.len() > 1).then(|| types.iter().map(split).collect()))
    }

    fn cases_of_one(&mut self, rest: &ValueSet, one: &[Id]) -> Result<Vec<ValueSet>, Stop> {
        let mut cases = Vec::with_capacity(one.len());
        for (i, case) in one.iter().enumerate() {
            self.step(one.len() / 4)?;
            let mut given = self.with(rest, *case)?;
            let others = one.iter().enumerate().filter(|(j, other)| *j != i && *other != case);
            given.nots.extend(others.map(|(_, other)| *other));
            cases.push(given);
        }
        Ok(cases)
    }

    pub(super) fn each_case(
        &mut self,
        goal: &Goal,
        cases: Vec<ValueSet>,
        failures: Vec<Failure>,
    ) -> Result<Vec<Failure>, Stop> {
        let mut found = Vec::new();
        for given in cases {
            let case = Goal { given, ..goal.clone() };
            found.extend(self.prove(&case)?);
            if found.iter().any(|failure| failure.is_definite) || found.len() >= FAILURES {
                break;
            }
        }
        if found.is_empty() {
            return Ok(found);
        }
        // Without the cases, the reason may be closer to the schema as written.
        found.extend(failures);
        Ok(found)
    }
}
