//! Object keywords.
//!
//! Names declared on either side are compared individually. All other names form classes: those
//! matching a pattern of the given schemas, and the rest.

use std::{collections::BTreeSet, rc::Rc};

use serde_json::{Map, Value};

use super::{
    arena::Id,
    prover::{FAILURES, Failure, Goal, Prover, Stop},
    rules::{Needs, Rules, Types},
    sample::size,
    value_set::{Facts, ValueSet},
};

impl Prover<'_> {
    pub(super) fn objects(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let rules = self.arena.rules(goal.wanted);
        let object = goal.given.clone().with_types(Types::OBJECT);
        let goal = &Goal { given: object, ..goal.clone() };
        self.presence(goal, facts, &rules, failures)?;
        self.named(goal, facts, &rules, failures)?;
        for (pattern, schema) in &rules.patterns {
            self.matching(goal, facts, (pattern, *schema), failures)?;
        }
        if let Some(additional) = rules.additional {
            self.additional(goal, facts, (&rules, additional), failures)?;
        }
        if let Some(names) = rules.names {
            self.names(goal, facts, names, failures)?;
        }
        for (name, schema) in &rules.dependent {
            let present = Rules {
                types: Types::OBJECT,
                required: BTreeSet::from([name.clone()]),
                ..Rules::default()
            };
            let present = self.arena.synthetic(goal.wanted, present);
            let given = self.with(&goal.given, present)?;
            let goal = self.sibling(goal, given, *schema);
            failures.extend(self.prove(&goal)?);
        }
        Ok(())
    }

    /// `required`, `minProperties`, `maxProperties`, and dependencies between properties.
    fn presence(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        rules: &Rules,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        for name in rules.required.difference(&facts.required).take(FAILURES) {
            let without = |sample: Value| without(sample, name);
            let samples = self.samples(&goal.given)?.into_iter().filter_map(without).collect();
            failures.push(self.failure(goal, "required", samples));
        }
        if facts.size.min < rules.size.min {
            let samples = self.samples(&goal.given)?;
            failures.push(self.failure(goal, "minProperties", samples));
        }
        let written = self.closed_names(facts)?.map_or(u64::MAX, |names| names.len() as u64);
        if facts.size.max.min(written) > rules.size.max {
            let mut samples = self.samples(&goal.given)?;
            samples.extend(self.fullest(&goal.given, facts, rules.size.max)?);
            failures.push(self.failure(goal, "maxProperties", samples));
        }
        for (keyword, needs) in &rules.needs {
            self.needs(goal, facts, (keyword, needs), failures)?;
        }
        Ok(())
    }

    fn needs(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        (keyword, needs): (&'static str, &Needs),
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        for (name, needed) in needs {
            if failures.len() >= FAILURES {
                break;
            }
            self.step(1 + needed.len() / 8)?;
            let given = facts.rules.iter().flat_map(|(_, rules)| &rules.needs);
            let given: Vec<_> = given.filter_map(|(_, needs)| needs.get(name)).collect();
            let is_given =
                |n: &String| facts.required.contains(n) || given.iter().any(|g| g.contains(n));
            if needed.iter().all(is_given) || self.is_absent(goal, facts, name)? {
                continue;
            }
            let with = self.with_property(&goal.given, facts, name)?;
            let lacking = |s: Value| needed.iter().find_map(|name| without(s.clone(), name));
            let samples = with.into_iter().filter_map(lacking).collect();
            failures.push(self.failure(goal, keyword, samples));
        }
        Ok(())
    }

    /// Whether the property is never present.
    pub(super) fn is_absent(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        name: &str,
    ) -> Result<bool, Stop> {
        if facts.absent.contains(name) {
            return Ok(true);
        }
        let schemas = facts.property_schemas(self, name)?;
        let given = self.given(schemas)?;
        self.is_empty(&given, goal.level + 1)
    }

    /// Compares every name declared on either side.
    fn named(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        rules: &Rules,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        let mut names: BTreeSet<String> = rules.properties.keys().cloned().collect();
        if !rules.patterns.is_empty() || rules.additional.is_some() {
            names.extend(facts.rules.iter().flat_map(|(_, r)| r.properties.keys().cloned()));
            names.extend(facts.required.iter().cloned());
        }
        self.step(names.len() / 8)?;
        for name in names {
            // Further failures would not be reported.
            if failures.len() >= FAILURES {
                break;
            }
            let wanted = self.property_of(rules, &name)?;
            if facts.absent.contains(&name) {
                continue;
            }
            let parts = facts.property_schemas(self, &name)?;
            for schema in wanted {
                let below = self.below(goal, &parts, schema)?;
                for mut failure in self.prove(&below)? {
                    if Some(schema) == rules.additional && !self.takes_any(schema) {
                        failure = self.closed(goal, failure, schema);
                    }
                    failures.push(self.as_member(goal, &name, &failure)?);
                }
            }
        }
        Ok(())
    }

    /// Attributes a failure of `additionalProperties: false` to that keyword.
    fn closed(&mut self, goal: &Goal, failure: Failure, additional: Id) -> Failure {
        if failure.wanted == additional && self.arena.rules(additional).types.is_empty() {
            let Failure { candidates, .. } = failure;
            return self.failure(goal, "additionalProperties", candidates);
        }
        failure
    }

    fn takes_any(&mut self, schema: Id) -> bool {
        *self.arena.rules(schema) == Rules::default()
    }

    /// Compares undeclared names that match a pattern of the wanted schema.
    fn matching(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        (pattern, schema): (&str, Id),
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        if self.takes_any(schema) {
            return Ok(());
        }
        let own = |rules: &Rc<Rules>| {
            let same = rules.patterns.iter().find(|(given, _)| given == pattern);
            match same {
                Some((_, schema)) => Some(*schema),
                None if rules.patterns.is_empty() => rules.additional,
                None => None,
            }
        };
        let parts: Vec<Id> = facts.rules.iter().filter_map(|(_, rules)| own(rules)).collect();
        let below = self.below(goal, &parts, schema)?;
        let found = self.prove(&below)?;
        // The schemas of one pattern may suffice for every name.
        if !found.is_empty() && self.suffices_for_all_matches(goal, facts, schema)? {
            return Ok(());
        }
        for failure in found {
            let name =
                self.fresh_name(goal, facts, |prover, name| prover.matches(pattern, name))?;
            let failure = match name {
                Some(name) => self.as_member(goal, &name, &failure)?,
                None => failure.with(Vec::new()),
            };
            failures.push(failure);
        }
        Ok(())
    }

    /// Whether the schemas of one given object for undeclared names suffice.
    fn suffices_for_all_matches(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        schema: Id,
    ) -> Result<bool, Stop> {
        for (_, rules) in &facts.rules {
            let Some(additional) = rules.additional else { continue };
            let mut suffices = true;
            for part in rules.patterns.iter().map(|(_, id)| *id).chain([additional]) {
                let given = self.given([part])?;
                suffices = suffices && self.holds(&given, schema, goal.level + 1)?;
            }
            if suffices {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares undeclared names that match no pattern of the wanted schema.
    fn additional(
        &mut self,
        goal: &Goal,
        facts: &Facts,
        (rules, additional): (&Rules, Id),
        failures: &mut Vec<Failure>,
    ) -> Result<(), Stop> {
        if self.takes_any(additional) {
            return Ok(());
        }
        let wanted: BTreeSet<&String> = rules.patterns.iter().map(|(p, _)| p).collect();
        let all: usize = facts.rules.iter().map(|(_, rules)| rules.patterns.len()).sum();
        let given = facts.rules.iter().flat_map(|(_, rules)| rules.patterns.iter());
        let classes: BTreeSet<&String> =
            given.map(|(p, _)| p).filter(|p| !wanted.contains(p)).collect();
        for class in classes.into_iter().map(Some).chain([None]) {
            self.step(1 + all / 8)?;
            let part = |given: &Rc<Rules>| match class {
                Some(class) => match given.patterns.iter().find(|(p, _)| p == class) {
                    Some((_, schema)) => Some(*schema),
                    None if given.patterns.iter().all(|(p, _)| wanted.contains(p)) => {
                        given.additional
                    }
                    None => None,
                },
                None => given.additional,
            };
            let parts: Vec<Id> = facts.rules.iter().filter_map(|(_, rules)| part(rules)).collect();
            let below = self.below(goal, &parts, additional)?;
            for failure in self.prove(&below)? {
                let failure = self.closed(goal, failure, additional);
                let name = self.fresh_name(goal, facts, |prover, name| {
                    let own = prover.property_of(rules, name)?;
                    let fits = class.map_or(Ok(true), |class| prover.matches(class, name))?;
                    Ok(fits && own == [additional])
                })?;
                failures.push(match name {
                    Some(name) => self.as_member(goal, &name, &failure)?,
                    None => failure.with(Vec::new()),
                });
            }
        }
        Ok(())
    }

    /// Converts the failure of a property into one of its object.
    fn as_member(&mut self, goal: &Goal, name: &str, failure: &Failure) -> Result<Failure, Stop> {
        let mut candidates = Vec::new();
        if !failure.candidates.is_empty() {
            let bases = self.samples(&goal.given)?;
            self.step(size(&bases) / 8)?;
            let mut bases: Vec<Map<String, Value>> =
                bases.into_iter().filter_map(|base| base.as_object().cloned()).take(3).collect();
            if bases.is_empty() {
                bases.push(Map::new());
            }
            for base in &bases {
                for candidate in failure.candidates.iter().take(4) {
                    let mut object = base.clone();
                    object.insert(name.to_owned(), candidate.clone());
                    candidates.push(Value::Object(object));
                }
            }
        }
        Ok(failure.with(candidates))
    }

    /// Objects with this property.
    pub(super) fn with_property(
        &mut self,
        given: &ValueSet,
        facts: &Facts,
        name: &str,
    ) -> Result<Vec<Value>, Stop> {
        let schemas = facts.property_schemas(self, name)?;
        let part = self.given(schemas)?;
        let values = self.samples(&part)?;
        let bases = self.samples(given)?;
        let mut found = Vec::new();
        for base in bases.iter().filter_map(Value::as_object).take(2) {
            for value in values.iter().take(2) {
                let mut object = base.clone();
                object.insert(name.to_owned(), value.clone());
                found.push(Value::Object(object));
            }
        }
        Ok(found)
    }

    /// An object with more than `most` properties, if that is a small number.
    fn fullest(&mut self, given: &ValueSet, facts: &Facts, most: u64) -> Result<Vec<Value>, Stop> {
        let mut names: BTreeSet<String> = facts.required.clone();
        names.extend(facts.rules.iter().flat_map(|(_, rules)| rules.properties.keys().cloned()));
        names.extend((0..=most.min(20)).map(|i| format!("p{i}")));
        let mut objects = Vec::new();
        if let Some(mut base) = self.samples(given)?.into_iter().find(Value::is_object) {
            for name in names {
                let schemas = facts.property_schemas(self, &name)?;
                let part = self.given(schemas)?;
                let value = self.samples(&part)?.into_iter().next();
                if let (Some(map), Some(value)) = (base.as_object_mut(), value)
                    && map.len() as u64 <= most
                {
                    map.entry(name).or_insert(value);
                }
            }
            objects.push(base);
        }
        Ok(objects)
    }
}

/// A copy of the object without this property.
fn without(sample: Value, name: &str) -> Option<Value> {
    let Value::Object(mut map) = sample else { return None };
    map.remove(name);
    Some(Value::Object(map))
}
