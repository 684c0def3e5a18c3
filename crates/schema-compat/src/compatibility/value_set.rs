//! Sets of values described by accepting and rejecting schemas.
//!
//! Every set is an upper bound: unsupported keywords are ignored, so a property of all its values
//! is one of all values that the schema accepts.

use std::{collections::BTreeSet, rc::Rc};

use serde_json::Value;

use super::{
    arena::Id,
    prover::{Prover, Stop},
    rules::{Bound, Range, Rules, Types},
    sample::size,
};

/// A disjunction of a node that has been split into cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Split {
    Any,
    One,
    If,
}

/// The values of these types that all of `nodes` and none of `nots` accept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ValueSet {
    pub(super) types: Types,
    /// Closed under `allOf` and `$ref`.
    pub(super) nodes: BTreeSet<Id>,
    pub(super) nots: BTreeSet<Id>,
    pub(super) done: BTreeSet<(Id, Split)>,
}

impl ValueSet {
    /// All values.
    pub(super) fn anything() -> Self {
        let (nodes, nots, done) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { types: Types::ALL, nodes, nots, done }
    }

    pub(super) fn with_types(mut self, types: Types) -> Self {
        self.types = self.types.and(types);
        self
    }

    pub(super) fn without(mut self, node: Id) -> Self {
        self.nots.insert(node);
        self
    }

    pub(super) fn split(mut self, node: Id, split: Split) -> Self {
        self.done.insert((node, split));
        self
    }
}

/// The combined constraints of a [`ValueSet`].
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) types: Types,
    /// All values, if there are few; some may be rejected.
    pub(super) values: Option<Vec<Value>>,
    pub(super) low: Option<Bound>,
    pub(super) high: Option<Bound>,
    pub(super) multiples: Vec<f64>,
    pub(super) length: Range,
    pub(super) size: Range,
    pub(super) count: Range,
    pub(super) is_unique: bool,
    pub(super) required: BTreeSet<String>,
    /// Properties that are never present.
    pub(super) absent: BTreeSet<String>,
    pub(super) rules: Vec<(Id, Rc<Rules>)>,
}

impl Prover<'_> {
    /// The values that all these nodes accept.
    pub(super) fn given(&mut self, nodes: impl IntoIterator<Item = Id>) -> Result<ValueSet, Stop> {
        let mut given = ValueSet::anything();
        for node in nodes {
            self.assume(&mut given, node)?;
        }
        Ok(given)
    }

    /// Restricts the set to values that this node accepts, too.
    pub(super) fn with(&mut self, given: &ValueSet, node: Id) -> Result<ValueSet, Stop> {
        self.step((given.nodes.len() + given.nots.len()) / 16)?;
        let mut given = given.clone();
        self.assume(&mut given, node)?;
        Ok(given)
    }

    fn assume(&mut self, given: &mut ValueSet, node: Id) -> Result<(), Stop> {
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            if given.nodes.insert(node) {
                self.step(1)?;
                let rules = self.arena.rules(node);
                waiting.extend(rules.all.iter().map(|(_, id)| *id));
                given.nots.extend(rules.not);
                if rules.unevaluated_properties.is_some() {
                    waiting.extend(self.unevaluated_properties(node, false)?);
                }
                if rules.unevaluated_items.is_some() {
                    waiting.extend(self.unevaluated_items(node, false)?);
                }
            }
        }
        Ok(())
    }

    pub(super) fn facts(&mut self, given: &ValueSet) -> Result<Facts, Stop> {
        let mut facts = Facts::all(given.types);
        for &node in &given.nodes {
            let rules = self.arena.rules(node);
            self.step(1 + rules.required.len() / 8)?;
            facts.add(&rules);
            facts.rules.push((node, rules));
        }
        for &node in &given.nots {
            let rules = self.arena.rules(node);
            self.step(rules.required.len() / 8)?;
            facts.apply_negation(&rules);
        }
        self.enumerate(&mut facts, given)?;
        facts.settle();
        Ok(facts)
    }

    /// Enumerates the values if the schemas allow only a few.
    fn enumerate(&mut self, facts: &mut Facts, given: &ValueSet) -> Result<(), Stop> {
        let lists = facts.rules.iter().flat_map(|(_, rules)| &rules.values);
        let shortest =
            lists.map(|(_, values)| values).min_by_key(|values| values.len()).map(Rc::clone);
        let finite = facts.types.within(Types::NULL.or(Types::BOOLEAN));
        let each = || vec![Value::Null, Value::Bool(false), Value::Bool(true)];
        self.step(size(shortest.iter().flat_map(|values| values.iter())) / 8)?;
        let shortest = shortest.map(|values| values.to_vec());
        let Some(mut values) = shortest.or_else(|| finite.then(each)) else { return Ok(()) };
        values.retain(|value| Types::of_value(value).within(facts.types));
        let mut kept = Vec::with_capacity(values.len());
        for value in values {
            let refused = self.accepts_all(given, &value)? == Some(false);
            if !refused {
                kept.push(value);
            }
        }
        let types = kept.iter().map(Types::of_value).fold(Rules::nothing().types, Types::or);
        facts.types = facts.types.and(types);
        facts.values = Some(kept);
        Ok(())
    }
}

impl Facts {
    fn all(types: Types) -> Self {
        Self {
            types,
            values: None,
            low: None,
            high: None,
            multiples: Vec::new(),
            length: Range::ANY,
            size: Range::ANY,
            count: Range::ANY,
            is_unique: false,
            required: BTreeSet::new(),
            absent: BTreeSet::new(),
            rules: Vec::new(),
        }
    }

    fn add(&mut self, rules: &Rules) {
        self.types = self.types.and(rules.types);
        for (_, bound) in &rules.low {
            if self.low.is_none_or(|low| is_above(*bound, low)) {
                self.low = Some(*bound);
            }
        }
        for (_, bound) in &rules.high {
            if self.high.is_none_or(|high| is_below(*bound, high)) {
                self.high = Some(*bound);
            }
        }
        self.multiples.extend(rules.multiple_of);
        self.length = self.length.and(rules.length);
        self.size = self.size.and(rules.size);
        self.count = self.count.and(rules.count);
        self.is_unique |= rules.is_unique;
        self.required.extend(rules.required.iter().cloned());
    }

    /// Applies the negation of the rules if it is expressible here: other types, or an object
    /// without a property.
    fn apply_negation(&mut self, rules: &Rules) {
        let plain =
            Rules { types: rules.types, required: rules.required.clone(), ..Rules::default() };
        if *rules != plain {
            return;
        }
        match (rules.required.len(), rules.types) {
            (0, types) => self.types = self.types.without(types),
            // `required` alone rejects only objects without the property.
            (1, types) if types == Types::ALL || types == self.types && types == Types::OBJECT => {
                self.types = self.types.and(Types::OBJECT);
                self.absent.extend(rules.required.iter().cloned());
            }
            _ => {}
        }
    }

    /// Derives consequences of combined constraints.
    fn settle(&mut self) {
        if self.types.and(Types::NUMBER) == Types::INTEGER {
            if let Some(low) = &mut self.low {
                let next = low.is_exclusive && low.value.fract() == 0.0;
                low.value = if next { low.value + 1.0 } else { low.value.ceil() };
                low.is_exclusive = false;
            }
            if let Some(high) = &mut self.high {
                let next = high.is_exclusive && high.value.fract() == 0.0;
                high.value = if next { high.value - 1.0 } else { high.value.floor() };
                high.is_exclusive = false;
            }
        }
        if self.multiples.iter().any(|multiple| multiple.fract() == 0.0) {
            self.types = self.types.without(Types::FRACTION);
        }
        self.size.min = self.size.min.max(self.required.len() as u64);
        let numbers_are_impossible = match (self.low, self.high) {
            (Some(low), Some(high)) => {
                low.value > high.value
                    || low.value >= high.value && (low.is_exclusive || high.is_exclusive)
            }
            _ => false,
        };
        let impossible = [
            (numbers_are_impossible, Types::NUMBER),
            (self.length.is_empty(), Types::STRING),
            (self.count.is_empty(), Types::ARRAY),
            (self.size.is_empty(), Types::OBJECT),
            (!self.required.is_disjoint(&self.absent), Types::OBJECT),
        ];
        for (is_impossible, types) in impossible {
            if is_impossible {
                self.types = self.types.without(types);
            }
        }
    }

    /// The schemas of the property with this name.
    pub(super) fn property_schemas(
        &self,
        prover: &mut Prover<'_>,
        name: &str,
    ) -> Result<Vec<Id>, Stop> {
        let mut found = Vec::new();
        for (_, rules) in &self.rules {
            prover.step(1)?;
            found.extend(prover.property_of(rules, name)?);
        }
        Ok(found)
    }

    pub(super) fn item_schemas(&self, position: usize) -> Vec<Id> {
        let item = |rules: &Rc<Rules>| rules.prefix.get(position).copied().or(rules.items);
        self.rules.iter().filter_map(|(_, rules)| item(rules)).collect()
    }

    /// The number of positions with schemas of their own.
    pub(super) fn prefix(&self) -> usize {
        self.rules.iter().map(|(_, rules)| rules.prefix.len()).max().unwrap_or(0)
    }

    /// Whether a number is within the interval.
    pub(super) fn is_within(&self, number: f64) -> bool {
        self.low.is_none_or(
            |low| {
                if low.is_exclusive { number > low.value } else { number >= low.value }
            },
        ) && self.high.is_none_or(|high| {
            if high.is_exclusive { number < high.value } else { number <= high.value }
        })
    }
}

fn is_above(one: Bound, other: Bound) -> bool {
    one.value > other.value || one.value >= other.value && one.is_exclusive
}

fn is_below(one: Bound, other: Bound) -> bool {
    one.value < other.value || one.value <= other.value && one.is_exclusive
}
