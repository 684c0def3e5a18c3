//! Array keywords. Positions with an own schema on either side are compared individually,
//! and the rest at once.

use serde_json::Value;

use super::{
    prover::{Failure, Goal, Prover, Stop},
    rules::{Contains, Rules, Types},
    value_set::Facts,
};

/// Maximum length of arrays in counterexamples.
const LONGEST: u64 = 256;

impl Prover<'_> {
    pub(super) fn arrays(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let rules = self.arena.rules(goal.wanted);
        let array = goal.given.clone().with_types(Types::ARRAY);
        let goal = &Goal { given: array, ..goal.clone() };
        if facts.count.min < rules.count.min {
            let samples = self.samples(&goal.given)?;
            failures.push(self.failure(goal, "minItems", samples));
        }
        if facts.count.max > rules.count.max {
            let sample = self.array_of(facts, rules.count.max + 1)?;
            failures.push(self.failure(goal, "maxItems", sample));
        }
        if rules.is_unique && !facts.is_unique && facts.count.max > 1 {
            let samples = self.duplicates(facts)?;
            failures.push(self.failure(goal, "uniqueItems", samples));
        }
        self.positions(goal, facts, &rules, failures)?;
        if let Some(contains) = rules.contains {
            self.contains(goal, facts, contains, failures)?;
        }
        Ok(())
    }

    fn positions(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        rules: &Rules,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let last = if rules.items.is_some() {
            facts.prefix().max(rules.prefix.len()) + 1
        } else {
            rules.prefix.len()
        };
        for position in 0..last {
            let Some(wanted) = rules.prefix.get(position).copied().or(rules.items) else { break };
            if facts.count.max <= position as u64 {
                break;
            }
            let parts = facts.item_schemas(position);
            let below = self.below(goal, &parts, wanted)?;
            let found = self.prove(&below)?;
            if !found.is_empty() && self.ends_before(facts, position, goal.level)? {
                break;
            }
            for failure in found {
                failures.push(self.as_item(facts, position, &failure)?);
            }
        }
        Ok(())
    }

    /// Whether no array reaches this position because no item matches an earlier one.
    fn ends_before(&mut self, facts: &Facts, position: usize, level: usize) -> Result<bool, Stop> {
        for earlier in 0..position.min(facts.prefix() + 1) {
            let part = self.given(facts.item_schemas(earlier))?;
            if self.is_empty(&part, level + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn contains(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        wanted: Contains,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let level = goal.level + 1;
        let given: Vec<Contains> =
            facts.rules.iter().filter_map(|(_, rules)| rules.contains).collect();
        let mut enough = wanted.min == 0;
        for contains in &given {
            if !enough && contains.min >= wanted.min {
                let mut parts = vec![contains.schema];
                // If all items have the same schemas, these apply to counted items as well.
                if facts.prefix() == 0 {
                    parts.extend(facts.item_schemas(0));
                }
                let part = self.given(parts)?;
                enough = self.holds(&part, wanted.schema, level)?;
            }
        }
        if !enough && facts.count.min >= wanted.min {
            enough = true;
            for position in 0..=facts.prefix() {
                let part = self.given(facts.item_schemas(position))?;
                enough = enough && self.holds(&part, wanted.schema, level)?;
            }
        }
        let most = wanted.max.unwrap_or(u64::MAX);
        let mut few = facts.count.max <= most;
        for contains in &given {
            if !few && contains.max.is_some_and(|max| max <= most) {
                let part = self.given([wanted.schema])?;
                few = self.holds(&part, contains.schema, level)?;
            }
        }
        if !enough {
            let keyword = if wanted.min == 1 { "contains" } else { "minContains" };
            let samples = self.samples(&goal.given)?;
            failures.push(self.failure(goal, keyword, samples));
        }
        if !few {
            let part = self.given([wanted.schema])?;
            let item = self.samples(&part)?.into_iter().next().unwrap_or(Value::Null);
            let count = usize::try_from(most.saturating_add(1).min(LONGEST)).unwrap_or(0);
            let mut samples = vec![Value::Array(vec![item; count])];
            samples.extend(self.array_of(facts, most.saturating_add(1))?);
            failures.push(self.failure(goal, "maxContains", samples));
        }
        Ok(())
    }

    /// An array with this number of items that match the given schemas.
    pub(super) fn array_of(&mut self, facts: &Facts, count: u64) -> Result<Vec<Value>, Stop> {
        if count > LONGEST {
            return Ok(Vec::new());
        }
        let mut items = Vec::new();
        for position in 0..usize::try_from(count).unwrap_or(0) {
            let part = self.given(facts.item_schemas(position))?;
            let values = self.samples(&part)?;
            let fresh = values.iter().find(|value| !facts.is_unique || !items.contains(*value));
            let numbered = || facts.is_unique.then(|| Value::String(format!("item {position}")));
            let Some(item) = fresh.cloned().or_else(numbered) else { return Ok(Vec::new()) };
            items.push(item);
        }
        Ok(vec![Value::Array(items)])
    }

    /// Arrays with a duplicate item.
    fn duplicates(&mut self, facts: &Facts) -> Result<Vec<Value>, Stop> {
        let mut found = Vec::new();
        for position in [0, facts.prefix()] {
            let part = self.given(facts.item_schemas(position))?;
            for item in self.samples(&part)?.into_iter().take(2) {
                let count = facts.count.min.clamp(2, LONGEST);
                for array in self.array_of(facts, count)? {
                    let Value::Array(mut items) = array else { continue };
                    let last = items.len().saturating_sub(1);
                    items[last] = item.clone();
                    items[last.saturating_sub(1)] = item.clone();
                    found.push(Value::Array(items));
                }
            }
        }
        Ok(found)
    }

    /// Converts the failure of an item into one of its array.
    fn as_item(
        &mut self,
        facts: &Facts,
        position: usize,
        failure: &Failure,
    ) -> Result<Failure, Stop> {
        let mut candidates = Vec::new();
        if !failure.candidates.is_empty() {
            let count = facts.count.min.max(position as u64 + 1);
            let bases = self.array_of(facts, count)?;
            for base in bases {
                let Value::Array(items) = base else { continue };
                for candidate in &failure.candidates {
                    let mut items = items.clone();
                    items[position] = candidate.clone();
                    candidates.push(Value::Array(items));
                }
            }
        }
        Ok(failure.with(candidates))
    }
}
