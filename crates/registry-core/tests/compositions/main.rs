//! Static checking of random compositions, compared with runs.
//!
//! A destination without findings never rejects a value, and one with an error never accepts one.
//! Each example is reproduced by an independent interpreter. `COMPOSITIONS=10000` sets the number
//! of cases.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod generate;
mod interpret;
mod random;

use std::collections::{BTreeMap, BTreeSet};

use registry_core::spec::{
    Spec, Target,
    types::{Mismatch, Signature, Witness, check},
};
use schema_compat::compatibility::Budget;
use serde_json::{Map, Value};

use crate::{
    generate::Case,
    interpret::{Called, Ended, Interpreter, World, failable},
    random::{Checked, Random},
};

/// The default number of cases, and the runs of each.
const CASES: u64 = 150;
const RUNS: usize = 40;

fn schema(checked: Option<&Checked>) -> Option<Value> {
    checked.map(|checked| checked.schema.clone())
}

fn checked(case: &Case, spec: &Spec, budget: &mut Budget) -> Vec<Mismatch> {
    let own =
        Signature { input: schema(case.input.as_ref()), output: schema(case.output.as_ref()) };
    let mut called = |target: &Target| {
        let tool = &case.tools[&target.to_string()];
        Signature { input: schema(tool.input.as_ref()), output: schema(tool.output.as_ref()) }
    };
    check(spec, &own, &mut called, budget)
}

/// The number of accepted and rejected values per destination.
type Notes = BTreeMap<String, (usize, usize)>;

/// A world that samples results.
struct Sampled<'c> {
    case: &'c Case,
    random: &'c mut Random,
    failing: BTreeSet<String>,
    notes: &'c mut Notes,
}

impl World for Sampled<'_> {
    fn call(&mut self, tool: &str, _: &str, input: &Value) -> Called {
        let tool = &self.case.tools[tool];
        if !takes(tool.input.as_ref(), input) {
            return Called::Refused;
        }
        let Some(output) = &tool.output else {
            return Called::Result(Value::Object(Map::default()));
        };
        output.sample(self.random).map_or(Called::Failed, Called::Result)
    }

    fn fails(&mut self, at: &str) -> bool {
        self.failing.contains(at)
    }

    fn note(&mut self, at: &str, is_taken: bool) {
        let note = self.notes.entry(at.to_owned()).or_default();
        *(if is_taken { &mut note.0 } else { &mut note.1 }) += 1;
    }
}

fn takes(input: Option<&Checked>, value: &Value) -> bool {
    value.is_object() && input.is_none_or(|input| input.accepts(value))
}

/// A world that replays the results of a witness.
struct Replayed<'c> {
    case: &'c Case,
    witness: &'c Witness,
    used: BTreeMap<String, usize>,
    problem: Option<String>,
}

impl World for Replayed<'_> {
    fn call(&mut self, tool: &str, at: &str, input: &Value) -> Called {
        let tool = &self.case.tools[tool];
        if !takes(tool.input.as_ref(), input) {
            return Called::Refused;
        }
        let used = self.used.entry(at.to_owned()).or_default();
        let Some(value) = self.witness.results.get(at).and_then(|all| all.get(*used)) else {
            return Called::Failed;
        };
        *used += 1;
        if tool.output.as_ref().is_some_and(|output| !output.accepts(value)) {
            self.problem = Some(format!("{at} never returns {value}"));
        }
        Called::Result(value.clone())
    }

    fn fails(&mut self, at: &str) -> bool {
        self.witness.failing.contains(at)
    }

    fn note(&mut self, _: &str, _: bool) {}
}

/// Replays a witness and returns the problem, if any.
fn replayed(
    case: &Case,
    spec: &Spec,
    may_fail: &BTreeSet<String>,
    witness: &Witness,
) -> Option<String> {
    if !takes(case.input.as_ref(), &witness.input) {
        return Some("the input is not accepted".to_owned());
    }
    if !witness.failing.is_subset(may_fail) {
        return Some("an operation fails that cannot fail".to_owned());
    }
    let mut world = Replayed { case, witness, used: BTreeMap::new(), problem: None };
    let wanted = Some(witness.at.clone());
    let ended = Interpreter { world: &mut world, wanted }.pattern(spec, &witness.input, "");
    if world.problem.is_some() {
        return world.problem;
    }
    match ended {
        Err(Ended::Refused { at, value }) if at == witness.at && value == witness.value => None,
        Ok(value) if witness.at == "result" && value == witness.value => {
            let output = case.output.as_ref();
            output
                .is_none_or(|output| output.accepts(&value))
                .then(|| "the value is accepted".to_owned())
        }
        ended => Some(format!("the run ends with {ended:?}")),
    }
}

#[derive(Default, Debug)]
struct Totals {
    compositions: usize,
    runs: usize,
    errors: usize,
    warnings: usize,
    undecided: usize,
    witnesses: usize,
    /// Destinations with warnings that rejected all values of all runs.
    only_warned: Vec<String>,
    budgets: Vec<Budget>,
    refusing_places: usize,
    /// Warnings without an example at destinations that rejected a value in a run.
    missed: Vec<String>,
    silent: Vec<String>,
    wrong_errors: Vec<String>,
    wrong_witnesses: Vec<String>,
}

fn judge(seed: u64, totals: &mut Totals) {
    let mut random = Random::new(seed);
    let case = Case::new(&mut random);
    let Ok(spec) = Spec::parse(&case.spec) else {
        panic!("{}: {:?}", case.spec, Spec::parse(&case.spec))
    };
    let mut budget = Budget::for_batch();
    let found = checked(&case, &spec, &mut budget);
    totals.budgets.push(budget);
    let mut may_fail = BTreeSet::new();
    failable(&spec, "", &mut may_fail);
    totals.compositions += 1;
    for mismatch in &found {
        if mismatch.is_certain {
            totals.errors += 1;
        } else {
            totals.warnings += 1;
            totals.undecided += usize::from(mismatch.witness.is_none());
        }
        let Some(witness) = &mismatch.witness else { continue };
        totals.witnesses += 1;
        if let Some(problem) = replayed(&case, &spec, &may_fail, witness) {
            totals.wrong_witnesses.push(format!("{seed}: {problem}: {mismatch:?}"));
        }
    }
    let mut notes = Notes::new();
    let mut sagas: Vec<Option<String>> = vec![None];
    sagas.extend(compensations(&case.spec, "").into_iter().map(Some));
    for run in 0..RUNS {
        let input = match &case.input {
            Some(input) => input.sample(&mut random),
            None => Some(Value::Object(Map::default())),
        };
        let Some(input) = input else { continue };
        let failing = may_fail.iter().filter(|_| run > 3 && random.one_in(3)).cloned().collect();
        let mut world = Sampled { case: &case, random: &mut random, failing, notes: &mut notes };
        let wanted = sagas[run % sagas.len()].clone();
        let ended = Interpreter { world: &mut world, wanted }.pattern(&spec, &input, "");
        totals.runs += 1;
        if let (Ok(value), Some(output)) = (ended, &case.output) {
            let note = notes.entry("result".to_owned()).or_default();
            *(if output.accepts(&value) { &mut note.0 } else { &mut note.1 }) += 1;
        }
    }
    for mismatch in found.iter().filter(|found| !found.is_certain && found.witness.is_none()) {
        let at = &mismatch.place;
        if notes.get(at).is_some_and(|(_, refused)| *refused > 0) {
            totals.missed.push(format!("{seed}: {at}: {}", mismatch.message));
        }
    }
    let is_registered = case.tools.values().all(|tool| tool.output.is_some());
    for (at, (taken, refused)) in &notes {
        // An input without a schema is an object with unknown members.
        let takes_array = ["/filter", "/mapEach"].iter().any(|place| at.ends_with(place));
        let is_known = is_registered && (case.input.is_some() || takes_array);
        let here: Vec<_> = found.iter().filter(|mismatch| mismatch.place == *at).collect();
        totals.refusing_places += usize::from(*refused > 0);
        if *refused > 0 && here.is_empty() && is_known {
            totals.silent.push(format!("{seed}: {at} rejects {refused} of {}", refused + taken));
        }
        let is_certain = here.iter().any(|mismatch| mismatch.is_certain);
        // Without a registered input schema, the runs ignore the derived one.
        if *taken > 0 && is_certain && case.input.is_some() {
            totals.wrong_errors.push(format!("{seed}: {at} takes {taken}: {here:?}"));
        }
        if *taken == 0 && *refused > 4 && is_known && !is_certain {
            let told: Vec<_> = here.iter().map(|mismatch| &mismatch.message).collect();
            totals.only_warned.push(format!("{seed}: {at}: {told:?}"));
        }
    }
}

/// The pointers of all compensations of a spec.
fn compensations(spec: &Value, at: &str) -> Vec<String> {
    match spec {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| {
                let at = format!("{at}/{name}");
                let inner = compensations(member, &at);
                inner.into_iter().chain((name == "compensate").then_some(at)).collect::<Vec<_>>()
            })
            .collect(),
        Value::Array(items) => {
            let all = items.iter().enumerate();
            all.flat_map(|(i, item)| compensations(item, &format!("{at}/{i}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// A number from an environment variable.
#[expect(clippy::disallowed_methods, reason = "a test that is given its number of cases")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn findings_agree_with_runs_for_random_compositions() {
    let mut totals = Totals::default();
    let first = number("FIRST").unwrap_or(0);
    for seed in first..first + number("COMPOSITIONS").unwrap_or(CASES) {
        judge(seed, &mut totals);
    }
    let Totals { silent, wrong_errors, wrong_witnesses, .. } = &totals;
    let wrong = [silent, wrong_errors, wrong_witnesses].map(Vec::len);
    let shown =
        [silent, wrong_errors, wrong_witnesses].map(|all| all.iter().take(6).collect::<Vec<_>>());
    if number("VERBOSE").is_some() {
        println!("{totals:#?}");
    }
    println!(
        "{} compositions, {} runs: {} errors, {} warnings, {} with an example",
        totals.compositions, totals.runs, totals.errors, totals.warnings, totals.witnesses
    );
    assert_eq!(wrong, [0, 0, 0], "{shown:#?}");
}

/// Prints one case: `CASE=17 cargo test --test compositions -- --ignored --nocapture show`.
#[test]
#[ignore = "prints one case"]
fn print_one_case() {
    let seed = number("CASE").unwrap();
    let case = Case::new(&mut Random::new(seed));
    println!("{}", serde_json::to_string_pretty(&case.spec).unwrap());
    println!("input {:?}", schema(case.input.as_ref()).map(|s| s.to_string()));
    println!("output {:?}", schema(case.output.as_ref()).map(|s| s.to_string()));
    for (name, tool) in &case.tools {
        let of = |checked: Option<&Checked>| schema(checked).map(|s| s.to_string());
        println!("{name}: {:?} -> {:?}", of(tool.input.as_ref()), of(tool.output.as_ref()));
    }
    for mismatch in checked(&case, &Spec::parse(&case.spec).unwrap(), &mut Budget::for_batch()) {
        println!("{mismatch:#?}");
    }
}
