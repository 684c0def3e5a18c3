//! Keywords without subschemas: `type`, `enum`, `const`, and those of numbers and strings.

use serde_json::Value;

use super::{
    prover::{Failure, Goal, Prover, Stop},
    rules::{Bound, Range, Rules, Types},
    sample::{long_text, number},
    strings::fitted,
    value_set::Facts,
};

impl Prover<'_> {
    pub(super) fn scalars(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let rules = self.arena.rules(goal.wanted);
        if !facts.types.within(rules.types) {
            let refused = facts.types.without(rules.types);
            let samples = self.samples(&goal.given.clone().with_types(refused))?;
            failures.push(self.failure(goal, "type", samples));
        }
        for (keyword, values) in &rules.values {
            // Short enumerations are handled earlier.
            let mut samples = self.samples(&goal.given)?;
            samples.extend(values.first().cloned().and_then(changed));
            failures.push(self.failure(goal, *keyword, samples));
        }
        if facts.types.has(Types::NUMBER) {
            self.numbers(goal, facts, &rules, failures);
        }
        if facts.types.has(Types::STRING) {
            self.strings(goal, facts, &rules, failures)?;
        }
        Ok(())
    }

    fn numbers(&mut self, goal: &Goal, facts: &Facts, rules: &Rules, failures: &mut Vec<Failure>) {
        for (keyword, bound) in &rules.low {
            let holds = facts.low.is_some_and(|low| implies(low, *bound, low.value > bound.value));
            if !holds {
                let steps = [0.0, -0.5, -1.0, -1000.0];
                let mut near: Vec<f64> = steps.map(|step| bound.value + step).to_vec();
                near.extend(facts.low.map(|low| low.value));
                failures.push(self.failure(goal, *keyword, in_interval(facts, &near)));
            }
        }
        for (keyword, bound) in &rules.high {
            let holds =
                facts.high.is_some_and(|high| implies(high, *bound, high.value < bound.value));
            if !holds {
                let mut near: Vec<f64> =
                    [0.0, 0.5, 1.0, 1000.0].map(|step| bound.value + step).to_vec();
                near.extend(facts.high.map(|high| high.value));
                failures.push(self.failure(goal, *keyword, in_interval(facts, &near)));
            }
        }
        if let Some(wanted) = rules.multiple_of {
            let divides = |given: &f64| is_multiple(*given, wanted);
            let whole = wanted.total_cmp(&1.0).is_eq() && !facts.types.has(Types::FRACTION);
            if !whole && !facts.multiples.iter().any(divides) {
                let mut near = vec![wanted / 2.0, wanted + 1.0, 1.0, 0.5];
                near.extend(facts.multiples.iter().flat_map(|m| [*m, m * 2.0, m * 3.0]));
                near.extend(
                    [facts.low, facts.high]
                        .into_iter()
                        .flatten()
                        .flat_map(|bound| [bound.value, bound.value + 1.0, bound.value - 1.0]),
                );
                failures.push(self.failure(goal, "multipleOf", in_interval(facts, &near)));
            }
        }
    }

    fn strings(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        rules: &Rules,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let texts = Types::STRING;
        let mut lengths = Vec::new();
        if facts.length.min < rules.length.min {
            lengths.push(("minLength", rules.length.min.saturating_sub(1)));
        }
        if facts.length.max > rules.length.max {
            lengths.push(("maxLength", rules.length.max + 1));
        }
        for (keyword, length) in lengths {
            let mut samples = self.samples(&goal.given.clone().with_types(texts))?;
            let known: Vec<Value> = samples.clone();
            let stretched = Range { min: length, max: length };
            let fits = |sample: &Value| fitted(sample.as_str()?, stretched).map(Value::String);
            samples.extend(known.iter().filter_map(fits));
            for length in [facts.length.min, length, facts.length.max.min(length * 2)] {
                samples.extend(long_text(length));
            }
            failures.push(self.failure(goal, keyword, samples));
        }
        if let Some(pattern) = &rules.pattern {
            let mut given = facts.rules.iter().filter_map(|(_, rules)| rules.pattern.as_ref());
            if !given.any(|given| given == pattern) {
                let texts = self.unmatched(&goal.given, facts, pattern)?;
                failures.push(self.failure(goal, "pattern", texts));
            }
        }
        Ok(())
    }
}

/// Whether `given` is at least as strict as `wanted`.
fn implies(given: Bound, wanted: Bound, is_stricter: bool) -> bool {
    let is_same = given.value.total_cmp(&wanted.value).is_eq();
    is_stricter || is_same && (given.is_exclusive || !wanted.is_exclusive)
}

/// Whether each multiple of `given` is a multiple of `wanted`. Fractions must be equal, because
/// validators round.
fn is_multiple(given: f64, wanted: f64) -> bool {
    let is_same = given.total_cmp(&wanted).is_eq();
    is_same || given.fract() == 0.0 && wanted.fract() == 0.0 && given % wanted == 0.0
}

fn in_interval(facts: &Facts, near: &[f64]) -> Vec<Value> {
    let fits = |value: &f64| facts.is_within(*value);
    let mut found: Vec<Value> = near.iter().copied().filter(fits).filter_map(number).collect();
    found.dedup();
    found
}

/// A similar but different value.
fn changed(value: Value) -> Option<Value> {
    match value {
        Value::String(text) => Some(Value::String(text + "x")),
        Value::Number(given) => number(given.as_f64()? + 1.0),
        _ => None,
    }
}
