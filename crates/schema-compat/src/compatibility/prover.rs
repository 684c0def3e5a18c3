//! Proves that one schema accepts every value that others accept.
//!
//! Every constraint of the wanted schema must follow from the given ones. If one does not follow
//! directly, the given values are split into the cases of a disjunction. Recursion uses induction
//! over the value: a goal that recurs on a part of the value may be assumed. Cost is counted in
//! steps, never in time.

use std::{collections::HashMap, rc::Rc};

use serde_json::Value;

use super::{
    Side,
    arena::{Arena, Id},
    regex::Pattern,
    rules::Types,
    sample::size,
    value_set::{Facts, ValueSet},
};
use crate::limits;

/// The budget is exhausted, or the nesting too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop;

/// A statement to prove.
#[derive(Debug, Clone)]
pub(super) struct Goal {
    pub(super) given: ValueSet,
    pub(super) wanted: Id,
    /// The last node on the path in the new document itself.
    pub(super) anchor: Id,
    /// The depth in the value.
    pub(super) level: usize,
}

/// A constraint that could not be proved.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// The keyword of the constraint; `None` for a whole schema.
    pub(super) keyword: Option<&'static str>,
    /// The node with the constraint.
    pub(super) wanted: Id,
    pub(super) anchor: Id,
    /// Candidates for values that one side accepts and the other rejects.
    pub(super) candidates: Vec<Value>,
    /// Whether the first candidate is known to be a counterexample.
    pub(super) is_definite: bool,
}

impl Failure {
    /// The same failure with unchecked candidates.
    pub(super) fn with(&self, candidates: Vec<Value>) -> Self {
        let Self { keyword, wanted, anchor, .. } = *self;
        Self { keyword, wanted, anchor, candidates, is_definite: false }
    }
}

/// Maximum number of candidates per failure, and of failures per goal.
pub(super) const CANDIDATES: usize = 12;
pub(super) const FAILURES: usize = 8;

#[derive(Clone)]
enum State {
    /// In progress, at this level of the value.
    Open(usize),
    Proved,
    Failed(Vec<Failure>),
}

pub(super) struct Prover<'a> {
    pub(super) arena: Arena<'a>,
    /// The version that contains the wanted schema.
    wanted_in: Side,
    /// The index of the new document.
    own: usize,
    steps: usize,
    /// The current call depth.
    depth: usize,
    states: HashMap<(ValueSet, Id), State>,
    /// The opened goals in order, for discarding results that depend on a failed goal.
    trail: Vec<(ValueSet, Id)>,
    /// Results of structural comparisons.
    pub(super) same: HashMap<(Id, Id), bool>,
    pub(super) patterns: HashMap<String, Rc<Pattern>>,
    pub(super) samples: HashMap<ValueSet, Vec<Value>>,
    /// The nesting depth of sample construction.
    pub(super) sampling: usize,
    pub(super) evaluated: HashMap<(Id, bool, bool), Option<Id>>,
}

impl<'a> Prover<'a> {
    /// `own` is the root of the new version.
    pub(super) fn new(arena: Arena<'a>, wanted_in: Side, own: Id, steps: usize) -> Self {
        Self {
            own: arena.document_of(own),
            arena,
            wanted_in,
            steps,
            depth: 0,
            states: HashMap::new(),
            trail: Vec::new(),
            same: HashMap::new(),
            patterns: HashMap::new(),
            samples: HashMap::new(),
            sampling: 0,
            evaluated: HashMap::new(),
        }
    }

    /// The remaining steps.
    pub(super) fn left(&self) -> usize {
        self.steps
    }

    /// Adds steps after the proof.
    pub(super) fn refill(&mut self, steps: usize) {
        (self.steps, self.depth, self.sampling) = (self.steps.max(steps), 0, 0);
    }

    pub(super) fn step(&mut self, steps: usize) -> Result<(), Stop> {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop)?;
        Ok(())
    }

    /// Runs a function one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        if self.depth == limits::COMPARISON_DEPTH {
            return Err(Stop);
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Returns the failures; none if the goal is proved.
    pub(super) fn prove(&mut self, goal: &Goal) -> Result<Vec<Failure>, Stop> {
        self.step(1 + (goal.given.nodes.len() + goal.given.nots.len()) / 4)?;
        for &given in &goal.given.nodes {
            if self.is_same(given, goal.wanted)? {
                return Ok(Vec::new());
            }
        }
        let key = (goal.given.clone(), goal.wanted);
        match self.states.get(&key) {
            Some(State::Proved) => return Ok(Vec::new()),
            Some(State::Open(level)) if *level < goal.level => return Ok(Vec::new()),
            Some(State::Open(_)) => return Ok(vec![self.failure(goal, "$ref", Vec::new())]),
            Some(State::Failed(failures)) => {
                let failures = failures.clone();
                self.step(size(failures.iter().flat_map(|failure| &failure.candidates)) / 16)?;
                return Ok(failures);
            }
            None => {}
        }
        let mark = self.trail.len();
        self.trail.push(key.clone());
        self.states.insert(key.clone(), State::Open(goal.level));
        let mut failures = self.deeper(|prover| prover.check(goal))?;
        failures.truncate(FAILURES);
        if failures.is_empty() {
            self.states.insert(key, State::Proved);
        } else {
            for forgotten in self.trail.split_off(mark) {
                if !matches!(self.states.get(&forgotten), Some(State::Failed(_))) {
                    self.states.remove(&forgotten);
                }
            }
            self.states.insert(key, State::Failed(failures.clone()));
        }
        Ok(failures)
    }

    /// Whether the goal is provable, for attempts without a report.
    pub(super) fn holds(
        &mut self,
        given: &ValueSet,
        wanted: Id,
        level: usize,
    ) -> Result<bool, Stop> {
        let goal = Goal { given: given.clone(), wanted, anchor: wanted, level };
        Ok(self.prove(&goal)?.is_empty())
    }

    fn check(&mut self, goal: &Goal) -> Result<Vec<Failure>, Stop> {
        let facts = self.facts(&goal.given)?;
        if facts.types.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(values) = &facts.values {
            return self.each_value(goal, values);
        }
        let mut failures = self.check_constraints(goal, &facts)?;
        if failures.is_empty() || self.settle(goal, &mut failures)? {
            return Ok(failures);
        }
        if self.is_empty(&goal.given, goal.level)? {
            return Ok(Vec::new());
        }
        match self.cases(&goal.given, &facts)? {
            Some(cases) => self.each_case(goal, cases, failures),
            None => Ok(failures),
        }
    }

    /// Checks a small finite set value by value.
    fn each_value(&mut self, goal: &Goal, values: &[Value]) -> Result<Vec<Failure>, Stop> {
        let mut open = Vec::new();
        for value in values {
            if self.accepts(goal.wanted, value)? != Some(true) {
                open.push(value.clone());
            }
        }
        if open.is_empty() {
            return Ok(Vec::new());
        }
        open.truncate(CANDIDATES);
        let keyword = self.rejecting_keyword(goal.wanted, &open[0])?;
        let mut failures = vec![self.failure(goal, keyword, open)];
        self.settle(goal, &mut failures)?;
        Ok(failures)
    }

    /// Checks every constraint of the wanted schema.
    fn check_constraints(&mut self, goal: &Goal, facts: &Facts) -> Result<Vec<Failure>, Stop> {
        let mut failures = Vec::new();
        self.scalars(goal, facts, &mut failures)?;
        if facts.types.has(Types::OBJECT) {
            self.objects(goal, facts, &mut failures)?;
        }
        if facts.types.has(Types::ARRAY) {
            self.arrays(goal, facts, &mut failures)?;
        }
        self.logic(goal, facts, &mut failures)?;
        Ok(failures)
    }

    /// Removes refuted candidates. Returns whether a counterexample is known.
    fn settle(&mut self, goal: &Goal, failures: &mut [Failure]) -> Result<bool, Stop> {
        let mut any = false;
        for failure in failures {
            failure.is_definite = false;
            let mut kept = Vec::new();
            for candidate in std::mem::take(&mut failure.candidates) {
                let given = self.accepts_all(&goal.given, &candidate)?;
                let wanted = self.accepts(goal.wanted, &candidate)?;
                match (given, wanted) {
                    (Some(true), Some(false)) if !failure.is_definite => {
                        failure.is_definite = true;
                        kept.insert(0, candidate);
                    }
                    (Some(false), _) | (_, Some(true)) => {}
                    _ => kept.push(candidate),
                }
            }
            kept.truncate(CANDIDATES);
            failure.candidates = kept;
            any |= failure.is_definite;
        }
        Ok(any)
    }

    pub(super) fn failure(
        &self,
        goal: &Goal,
        keyword: impl Into<Option<&'static str>>,
        candidates: Vec<Value>,
    ) -> Failure {
        let keyword = match self.arena.json(goal.wanted) {
            Some(Value::Bool(false)) => self.arena.applied_by(goal.wanted),
            _ => self.arena.stands_for(goal.wanted).or_else(|| keyword.into()),
        };
        let (wanted, anchor) = (goal.wanted, goal.anchor);
        Failure { keyword, wanted, anchor, candidates, is_definite: false }
    }

    /// A goal about the same value.
    pub(super) fn sibling(&self, goal: &Goal, given: ValueSet, wanted: Id) -> Goal {
        let anchor = match self.wanted_in {
            Side::New => self.anchor(&[wanted], goal.anchor),
            Side::Old => goal.anchor,
        };
        Goal { given, wanted, anchor, level: goal.level }
    }

    /// A goal about a part of the value that satisfies these nodes.
    pub(super) fn below(&mut self, goal: &Goal, parts: &[Id], wanted: Id) -> Result<Goal, Stop> {
        let anchor = match self.wanted_in {
            Side::New => self.anchor(&[wanted], goal.anchor),
            Side::Old => self.anchor(parts, goal.anchor),
        };
        let given = self.given(parts.iter().copied())?;
        Ok(Goal { given, wanted, anchor, level: goal.level + 1 })
    }

    fn anchor(&self, nodes: &[Id], otherwise: Id) -> Id {
        let own = |id: &&Id| self.arena.document_of(**id) == self.own;
        nodes.iter().find(own).copied().unwrap_or(otherwise)
    }
}
