//! The decision procedure.
//!
//! A proof yields "yes". A failed proof yields candidates; if the validators of both schemas
//! disagree on one, the verdict is "no".

use serde_json::Value;

use super::{
    Assertion, Budget, Difference, Resolve, Side, UndecidedCheck, Verdict,
    arena::{Arena, Id},
    prover::{Failure, Goal, Prover, Stop},
    regex,
    sample::size,
};
use crate::{
    json_schema::each_object,
    limits,
    name::SchemaName,
    pointer::pointer_join,
    schema_compile::{Validator, compile, patterns_of},
};

/// A JSON Schema and its JSON pointer in its entity.
pub type Placed<'a, 'p> = (&'a Value, &'p str);

/// Steps reserved for finding a counterexample after the proof has used its own.
const LAST_STEPS: usize = 2_000;

/// The cost of compiling two small schemas, in steps.
const COMPILING_STEPS: usize = 200;

/// Decides whether `wanted` accepts everything that `given` accepts. `wanted_in` is the version
/// that contains `wanted`.
pub fn covers<'a>(
    given: Placed<'a, '_>,
    wanted: Placed<'a, '_>,
    wanted_in: Side,
    resolve: Resolve<'a>,
    budget: &mut Budget,
) -> Verdict {
    if given.0 == wanted.0 {
        return Verdict::Yes;
    }
    if budget.is_spent() {
        let own = if wanted_in == Side::New { wanted.1 } else { given.1 };
        let reason = "the comparison budget of the commit is exhausted".to_owned();
        return Verdict::Undecided(UndecidedCheck { pointer: own.to_owned(), reason });
    }
    let mut arena = Arena::new(resolve);
    let (given_root, wanted_root) = (arena.add(given.0, given.1), arena.add(wanted.0, wanted.1));
    let own = match wanted_in {
        Side::New => wanted_root,
        Side::Old => given_root,
    };
    let share = budget.share();
    let prover = Prover::new(arena, wanted_in, own, share);
    let mut question = Question { prover, given: given_root, wanted: wanted_root, own, wanted_in };
    let outcome = question.prove();
    budget.spend(share - question.prover.left());
    match outcome {
        Ok(failures) if failures.is_empty() => Verdict::Yes,
        Err(Unproved::Cycle(circle)) => question.circular(circle),
        Ok(failures) => question.disprove(&failures, resolve, budget),
        Err(Unproved::Stop) => question.disprove(&[], resolve, budget),
    }
}

/// Sample values of a schema without references.
pub fn samples(schema: &Value, budget: &mut Budget) -> Vec<Value> {
    let mut arena = Arena::new(&|_| None);
    let root = arena.add(schema, "");
    let share = budget.share();
    let mut prover = Prover::new(arena, Side::New, root, share);
    let found = prover.given([root]).and_then(|given| prover.samples(&given));
    budget.spend(share - prover.left() + COMPILING_STEPS);
    let mut found = found.unwrap_or_default();
    let Ok(validator) = compile(schema, &|_| None) else { return Vec::new() };
    found.retain(|value| validator.accepts(value) == Some(true));
    found
}

/// Two schemas and the results about them.
struct Question<'a> {
    prover: Prover<'a>,
    given: Id,
    wanted: Id,
    /// The root in the new version.
    own: Id,
    wanted_in: Side,
}

/// The reason why there is no proof.
enum Unproved {
    Stop,
    /// A cycle of references contains this node.
    Cycle(Id),
}

impl From<Stop> for Unproved {
    fn from(_: Stop) -> Self {
        Self::Stop
    }
}

impl<'a> Question<'a> {
    fn prove(&mut self) -> Result<Vec<Failure>, Unproved> {
        if let Some(circle) = self.prover.find_cycle([self.given, self.wanted])? {
            return Err(Unproved::Cycle(circle));
        }
        let given = self.prover.given([self.given])?;
        let (wanted, anchor) = (self.wanted, self.own);
        Ok(self.prover.prove(&Goal { given, wanted, anchor, level: 0 })?)
    }

    /// Checks all candidates with the validators.
    fn disprove(
        &mut self,
        failures: &[Failure],
        resolve: Resolve<'a>,
        budget: &mut Budget,
    ) -> Verdict {
        let more = self.with_last_steps(budget, Self::last_candidates);
        let share = budget.share();
        let candidates = failures.iter().flat_map(|failure| &failure.candidates).chain(&more);
        let steps = self.validation_cost(share).saturating_add(size(candidates) / 8);
        budget.spend(steps);
        if steps > share {
            return self.too_long();
        }
        let (given, wanted) = (self.json(self.given), self.json(self.wanted));
        if let Some(judges) = Validators::compile(given, wanted, resolve) {
            for failure in failures {
                if let Some(instance) = failure.candidates.iter().find(|v| judges.differ(v)) {
                    return self.no(failure, instance.clone());
                }
            }
            if let Some(instance) = more.into_iter().find(|value| judges.differ(value)) {
                let keyword = self.with_last_steps(budget, |question| {
                    question
                        .prover
                        .rejecting_keyword(question.wanted, &instance)
                        .unwrap_or_default()
                });
                let (wanted, anchor, candidates) = (self.wanted, self.own, Vec::new());
                let root = Failure { keyword, wanted, anchor, candidates, is_definite: true };
                return self.no(&root, instance);
            }
        }
        match failures.first() {
            Some(failure) => self.undecided(failure),
            None => self.too_long(),
        }
    }

    /// Runs follow-up work after the proof and deducts its cost.
    fn with_last_steps<T>(&mut self, budget: &mut Budget, work: impl FnOnce(&mut Self) -> T) -> T {
        self.prover.refill(LAST_STEPS);
        let before = self.prover.left();
        let result = work(self);
        budget.spend(before - self.prover.left());
        result
    }

    fn json(&self, root: Id) -> &'a Value {
        // Roots always have JSON.
        self.prover.arena.json(root).unwrap_or(&Value::Null)
    }

    /// Values of the given schema, found with additional steps.
    fn last_candidates(&mut self) -> Vec<Value> {
        let given = self.prover.given([self.given]);
        given.and_then(|given| self.prover.samples(&given)).unwrap_or_default()
    }

    /// The cost of compiling all schemas in steps, counted up to `most`.
    fn validation_cost(&self, most: usize) -> usize {
        let mut steps = COMPILING_STEPS;
        for schema in self.prover.arena.schemas() {
            each_object(schema, &mut |map| {
                let listed = map.get("enum").and_then(Value::as_array);
                steps += 1 + size(listed.into_iter().flatten()) / 8;
                for pattern in patterns_of(map) {
                    if steps <= most {
                        steps = steps.saturating_add(regex::cost(pattern));
                    }
                }
            });
        }
        steps
    }

    fn no(&self, failure: &Failure, instance: Value) -> Verdict {
        let Place { assertion, pointer, referenced_location } = self.place(failure);
        let instance = Some(instance);
        let rejected_by = self.wanted_in;
        Verdict::No(Difference { assertion, pointer, referenced_location, instance, rejected_by })
    }

    fn undecided(&self, failure: &Failure) -> Verdict {
        let Place { assertion, pointer, referenced_location } = self.place(failure);
        let place = referenced_location.map(|place| format!(" ({place})")).unwrap_or_default();
        let reason = format!("{assertion}{place} could not be compared");
        Verdict::Undecided(UndecidedCheck { pointer, reason })
    }

    fn circular(&self, circle: Id) -> Verdict {
        let circle = self.prover.arena.pointer(circle);
        self.doubt(format!("{circle} refers to itself"))
    }

    fn too_long(&self) -> Verdict {
        let steps = limits::COMPARISON_STEPS;
        self.doubt(format!("the comparison exceeds {steps} steps or the nesting limit"))
    }

    fn doubt(&self, reason: String) -> Verdict {
        let pointer = self.prover.arena.pointer(self.own).to_owned();
        Verdict::Undecided(UndecidedCheck { pointer, reason })
    }

    /// The location of a failure, relative to the new document.
    fn place(&self, failure: &Failure) -> Place {
        let arena = &self.prover.arena;
        let Failure { keyword, wanted, anchor, .. } = *failure;
        let at = |node: Id, keyword: Option<&str>| {
            let has = |keyword: &&str| arena.json(node).is_some_and(|j| j.get(*keyword).is_some());
            let pointer = arena.pointer(node);
            keyword.filter(has).map_or(pointer.to_owned(), |keyword| pointer_join(pointer, keyword))
        };
        let is_elsewhere = wanted != anchor;
        let own = if is_elsewhere && self.wanted_in == Side::New { Some("$ref") } else { keyword };
        let referenced_location = is_elsewhere.then(|| {
            let place = at(wanted, keyword);
            match arena.key_of(wanted) {
                Some(key) => format!("in {key} at {place}"),
                None => format!("at {place}"),
            }
        });
        let assertion = keyword.map_or(Assertion::Schema, Assertion::Keyword);
        Place { assertion, pointer: at(anchor, own), referenced_location }
    }
}

/// The rejecting keyword and its location.
struct Place {
    assertion: Assertion,
    pointer: String,
    referenced_location: Option<String>,
}

/// The validators of both schemas.
struct Validators {
    given: Validator,
    wanted: Validator,
}

impl Validators {
    fn compile<'a>(given: &'a Value, wanted: &'a Value, resolve: Resolve<'a>) -> Option<Self> {
        let schema = |name: &SchemaName| Some(resolve(name)?.schema);
        let compiled = |value| compile(value, &schema).ok();
        Some(Self { given: compiled(given)?, wanted: compiled(wanted)? })
    }

    /// Whether one accepts the value and the other rejects it.
    fn differ(&self, value: &Value) -> bool {
        is_shallow(value, limits::DOCUMENT_DEPTH)
            && self.given.accepts(value) == Some(true)
            && self.wanted.accepts(value) == Some(false)
    }
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_shallow(item, depth - 1)),
        Value::Object(map) => map.values().all(|member| is_shallow(member, depth - 1)),
        _ => true,
    }
}
