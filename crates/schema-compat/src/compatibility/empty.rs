//! Detection of unsatisfiable combinations of schemas.
//!
//! A result of "not empty" only means that no contradiction was found.

use super::{
    prover::{Prover, Stop},
    rules::Types,
    value_set::{Facts, ValueSet},
};

/// Maximum depth of values searched for a contradiction.
const DEPTH: usize = 4;

impl Prover<'_> {
    /// Whether it is proved that no value is accepted.
    pub(super) fn is_empty(&mut self, given: &ValueSet, level: usize) -> Result<bool, Stop> {
        self.is_empty_within(given, level, DEPTH)
    }

    fn is_empty_within(
        &mut self,
        given: &ValueSet,
        level: usize,
        depth: usize,
    ) -> Result<bool, Stop> {
        self.step(1)?;
        let facts = self.facts(given)?;
        if facts.types.is_empty() || facts.values.as_ref().is_some_and(Vec::is_empty) {
            return Ok(true);
        }
        if depth == 0 {
            return Ok(false);
        }
        self.deeper(|prover| {
            if prover.is_refused(given, level)? || prover.has_contradiction(&facts, level, depth)? {
                return Ok(true);
            }
            let only_types =
                |cases: &Vec<ValueSet>| cases.iter().all(|case| case.done == given.done);
            let Some(cases) = prover.cases(given, &facts)? else { return Ok(false) };
            if only_types(&cases) {
                return prover.are_empty(&cases, level, 1);
            }
            prover.are_empty(&cases, level, depth - 1)
        })
    }

    fn are_empty(&mut self, cases: &[ValueSet], level: usize, depth: usize) -> Result<bool, Stop> {
        for case in cases {
            if !self.is_empty_within(case, level, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a schema that must reject the values accepts all of them.
    fn is_refused(&mut self, given: &ValueSet, level: usize) -> Result<bool, Stop> {
        for not in given.nots.clone() {
            let mut rest = given.clone();
            rest.nots.remove(&not);
            if self.holds(&rest, not, level)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether each remaining type requires a part that cannot exist.
    fn has_contradiction(
        &mut self,
        facts: &Facts,
        level: usize,
        depth: usize,
    ) -> Result<bool, Stop> {
        if !facts.types.within(Types::ARRAY.or(Types::OBJECT)) {
            return Ok(false);
        }
        let objects = !facts.types.has(Types::OBJECT) || self.no_object(facts, level, depth)?;
        Ok(objects && (!facts.types.has(Types::ARRAY) || self.no_array(facts, level, depth)?))
    }

    fn no_object(&mut self, facts: &Facts, level: usize, depth: usize) -> Result<bool, Stop> {
        for name in &facts.required {
            let schemas = facts.property_schemas(self, name)?;
            let part = self.given(schemas)?;
            if self.is_empty_within(&part, level + 1, depth - 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn no_array(&mut self, facts: &Facts, level: usize, depth: usize) -> Result<bool, Stop> {
        let needed = usize::try_from(facts.count.min).unwrap_or(usize::MAX);
        for position in 0..needed.min(facts.prefix() + 1) {
            let part = self.given(facts.item_schemas(position))?;
            if self.is_empty_within(&part, level + 1, depth - 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
