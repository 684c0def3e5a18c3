//! `policy test CASES`: calls with their expected decisions.

mod read;

use std::sync::Arc;

use policy::Explanation;
use registry_core::Key;
use serde::Serialize;

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
    let decider = Decider::open(session, &args.catalog).await?;
    let help = args.catalog.help_for_missing();
    let subjects: Vec<_> =
        cases.iter().filter_map(|case| subject(&decider, case, help, &mut problems)).collect();
    if !problems.is_empty() {
        let report = report(problems);
        return Err(rejected(screen, &report, format!("invalid cases: {}", report.counts())));
    }
    let results: Vec<_> = cases
        .iter()
        .zip(&subjects)
        .map(|(case, (caller, target))| {
            let found = decider.explain((caller.as_ref(), target), &case.arguments, &case.facts);
            result(case, &found)
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
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::Rejected(format!("{failed} of {} cases failed", results.len()))),
    }
}

/// The registered caller and tool of a case. Unknown ones are problems with this help.
fn subject(
    decider: &Decider,
    case: &Case,
    help: Option<&str>,
    problems: &mut Vec<read::Problem>,
) -> Option<(Option<Key>, Target)> {
    let mut report = |member: &str, message: String| {
        let problem = read::Problem::new(format!("{}/{member}", case.pointer), message);
        problems.push(problem.with_help(help));
    };
    let caller = case.caller.as_ref().map(|name| decider.caller(name)).transpose();
    let caller = caller.map_err(|message| report("caller", message)).ok()?;
    let target = decider.target(&case.tool, caller.as_ref());
    let target = target.map_err(|message| report("tool", message)).ok()?;
    Some((caller, target))
}

fn result<'a>(case: &'a Case, Explanation { verdict, policies }: &Explanation) -> ResultView<'a> {
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
    }
}

impl ResultView<'_> {
    fn text(&self, source: &Source, session: &Session) -> String {
        let Self { name, result, line, expected, actual } = self;
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
