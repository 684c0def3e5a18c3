//! `policy test CASES`: calls with their expected decisions.

mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use policy::Explanation;
use registry_core::Key;
use schema_compat::schema_compile::Violation;
use serde::Serialize;
use serde_json::{Map, Value};

use self::read::{Case, Expectation};
use super::{
    decide::{Decider, Target},
    explain::{DecisionView, ViolationView},
};
use crate::{
    cli::{Format, TestArgs},
    commands::{Session, rejected},
    failure::Failure,
    input::Source,
    report::Report,
    style::{Paint, printable},
};

/// Maximum size of a file in bytes.
const FILE_BYTES: u64 = 4 << 20;

/// The JSON result.
#[derive(Serialize)]
struct ResultsView<'a> {
    passed: usize,
    failed: usize,
    cases: &'a [ResultView<'a>],
}

/// The result of one case.
#[derive(Serialize)]
struct ResultView<'a> {
    name: &'a str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    expected: &'a Expectation,
    actual: DecisionView,
    /// The tools and skills that the steps of a composition call, whose policies are not evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
}

pub(super) async fn run(session: &Session, args: TestArgs) -> Result<(), Failure> {
    let screen = session.screen;
    let source = Arc::new(Source::read_within(&args.cases, FILE_BYTES)?);
    let (cases, mut problems) = read::cases(&source);
    let report = |problems| Report::new(read::findings(&source, problems));
    if !problems.is_empty() {
        let report = report(problems);
        return Err(rejected(screen, &report, format!("invalid cases: {}", report.counts())));
    }
    let variables = args.variables.by_name();
    let subjects = Subjects {
        decider: Decider::open(session, &args.catalog).await?,
        variables,
        help: args.catalog.help_for_missing(),
    };
    let calls: Vec<_> =
        cases.iter().filter_map(|case| subjects.call(case, &mut problems)).collect();
    if !problems.is_empty() {
        let report = report(problems);
        return Err(rejected(screen, &report, format!("invalid cases: {}", report.counts())));
    }
    let results: Vec<_> = cases
        .iter()
        .zip(&calls)
        .map(|(case, Call { caller, target, arguments })| {
            let subject = (caller.as_ref(), target);
            let explanation = subjects.decider.explain(subject, arguments, &case.facts);
            result(case, target, &explanation)
        })
        .collect();
    let failed = results.iter().filter(|result| result.result == "failed").count();
    let passed = results.len() - failed;
    if screen.format == Format::Json {
        screen.json(&ResultsView { passed, failed, cases: &results })?;
    } else {
        for result in &results {
            screen.line(&result.text(&source, session))?;
        }
        screen.line(&format!("{passed} passed, {failed} failed"))?;
        let notes = cases.iter().zip(&calls);
        let notes = notes.filter_map(|(case, call)| {
            let hops = case.facts.hops.saturating_add(1);
            let remedy = format!("add cases for them, with `purpose: step` and `hops: {hops}`");
            call.target.note_of_steps(&remedy)
        });
        let notes: BTreeSet<_> = notes.collect();
        for note in notes {
            eprintln!("{}", printable(&note));
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::Rejected(format!("{failed} of {} cases failed", results.len()))),
    }
}

/// The subjects of all cases: policies, tools and agents of one catalog, and variables.
struct Subjects {
    decider: Decider,
    variables: BTreeMap<String, String>,
    /// The remedy for unknown names.
    help: Option<&'static str>,
}

/// The call of a case.
struct Call {
    caller: Option<Key>,
    target: Target,
    /// The arguments as the server receives them.
    arguments: Map<String, Value>,
}

impl Subjects {
    /// The call of a case. Unknown names and rejected arguments are problems.
    fn call(&self, case: &Case, problems: &mut Vec<read::Problem>) -> Option<Call> {
        let decider = &self.decider;
        let mut report = |member: &str, message: String, help: Option<&str>| {
            let problem = read::Problem::new(format!("{}/{member}", case.pointer), message);
            problems.push(problem.with_help(help));
        };
        let caller = case.caller.as_ref().map(|name| decider.caller(name)).transpose();
        let caller = caller.map_err(|message| report("caller", message, self.help)).ok()?;
        let target = decider.target(&case.tool, caller.as_ref());
        let target = target.map_err(|message| report("tool", message, self.help)).ok()?;
        let subject = (caller.as_ref(), &target);
        let found = decider.final_arguments(subject, &case.arguments, &self.variables);
        let found = found.map_err(|message| report("arguments", message, None)).ok()?;
        if !found.is_rejected {
            return Some(Call { caller, target, arguments: found.members });
        }
        for Violation { pointer, message } in &found.violations {
            let help = "gateways reject such arguments before they evaluate policies";
            let message = format!("{message} in {}", target.key());
            report(&format!("arguments{pointer}"), message, Some(help));
        }
        None
    }
}

fn result<'a>(
    case: &'a Case,
    target: &Target,
    Explanation { verdict, policies, .. }: &Explanation,
) -> ResultView<'a> {
    let expected = &case.expected;
    // Several policies may deny a call, and the verdict has the first.
    let mut violations = policies.iter().filter_map(|part| {
        let reason = part.violation.as_ref()?;
        (part.policy.mode().as_str() == "enforce")
            .then(|| ViolationView::new(part.policy.key(), reason))
    });
    let is_passed = match &verdict.denial {
        None => expected.allows(),
        Some(_) => violations.any(|found| expected.is_met_by(&found)),
    };
    ResultView {
        name: &case.name,
        result: if is_passed { "passed" } else { "failed" },
        line: case.line,
        expected,
        actual: DecisionView::of(verdict.denial.as_ref()),
        steps: target.steps(),
    }
}

impl ResultView<'_> {
    fn text(&self, source: &Source, session: &Session) -> String {
        let Self { name, result, line, expected, actual, steps: _ } = self;
        let style = session.screen.style;
        let name = printable(name);
        if *result == "passed" {
            return format!("{}  {name}", style.paint(Paint::Good, "ok  "));
        }
        let place = line.map_or_else(String::new, |line| format!(":{line}"));
        let actual = match &actual.violation {
            Some(violation) => format!("{}: {violation}", actual.decision),
            None => actual.decision.to_owned(),
        };
        let failed = style.paint(Paint::Bad, "FAIL");
        let file = printable(source.name());
        format!("{failed}  {name} ({file}{place}): expected {expected}, got {actual}")
    }
}
