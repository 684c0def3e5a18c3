//! Property names: `propertyNames`, closed sets of names, and new names for counterexamples.

use serde_json::Value;

use super::{
    arena::Id,
    prover::{Failure, Goal, Prover, Stop},
    rules::Types,
    value_set::Facts,
};

/// Names for undeclared properties.
const FRESH: [&str; 7] = ["x", "extra", "other", "X1", "_", "0", "a-b"];

impl Prover<'_> {
    /// A name that the given side does not declare and that passes the test.
    pub(super) fn fresh_name(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        passes: impl Fn(&mut Self, &str) -> Result<bool, Stop>,
    ) -> Result<Option<String>, Stop> {
        let mut names: Vec<String> = FRESH.map(str::to_owned).to_vec();
        let patterns: Vec<String> = {
            let wanted = self.arena.rules(goal.wanted);
            let given = facts.rules.iter().flat_map(|(_, rules)| rules.patterns.iter());
            wanted.patterns.iter().chain(given).map(|(pattern, _)| pattern.clone()).collect()
        };
        for pattern in patterns {
            names.extend(self.pattern(&pattern)?.examples.iter().cloned());
        }
        let spelled = facts.rules.iter().filter_map(|(_, rules)| rules.names);
        let given = self.given(spelled.collect::<Vec<_>>())?.with_types(Types::STRING);
        if !given.nodes.is_empty() {
            let texts = self.samples(&given)?.into_iter();
            names.extend(texts.filter_map(|text| text.as_str().map(str::to_owned)));
        }
        for name in names {
            let is_written = facts.rules.iter().any(|(_, r)| r.properties.contains_key(&name));
            let spelling = self.accepts_all(&given, &Value::String(name.clone()))?;
            if !is_written && spelling != Some(false) && passes(self, &name)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    pub(super) fn names(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        wanted: Id,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        if let Some(allowed) = self.closed_names(facts)? {
            let (mut is_open, mut samples) = (false, Vec::new());
            for name in allowed {
                let is_accepted = self.accepts(wanted, &Value::String(name.clone()))? == Some(true);
                if !is_accepted && !self.is_absent(goal, facts, &name)? {
                    is_open = true;
                    samples.extend(self.with_property(&goal.given, facts, &name)?);
                }
            }
            if is_open {
                failures.push(self.failure(goal, "propertyNames", samples));
            }
            return Ok(());
        }
        let parts: Vec<Id> = facts.rules.iter().filter_map(|(_, rules)| rules.names).collect();
        let mut below = self.below(goal, &parts, wanted)?;
        below.given = below.given.with_types(Types::STRING);
        for failure in self.prove(&below)? {
            let mut candidates = Vec::new();
            for name in failure.candidates.iter().filter_map(Value::as_str) {
                candidates.extend(self.with_property(&goal.given, facts, name)?);
            }
            failures.push(failure.with(candidates));
        }
        Ok(())
    }

    /// All possible names, if the set is known.
    pub(super) fn closed_names(&mut self, facts: &Facts) -> Result<Option<Vec<String>>, Stop> {
        for (_, rules) in &facts.rules {
            let Some(additional) = rules.additional.filter(|_| rules.patterns.is_empty()) else {
                continue;
            };
            if self.arena.rules(additional).types.is_empty() {
                self.step(rules.properties.len())?;
                let names = rules.properties.keys().filter(|name| !facts.absent.contains(*name));
                return Ok(Some(names.cloned().collect()));
            }
        }
        Ok(None)
    }
}
