//! The official conformance suite, SDKs and Inspector against the gateway. They are installed
//! unchanged from `PyPI` and npm at the versions in `conformance/`. The suite's authorization
//! scenarios are not run (see docs/conformance.md).

mod clients;
mod everything;
mod mcp_remote;
mod rust;
mod sdks;

use std::{collections::BTreeMap, fs, process::Command};

pub(crate) use everything::{Everything, fixture, official};
pub(crate) use mcp_remote::Remote;
pub(crate) use sdks::run;

/// One run of a requirement set: its output, and the summary line of each scenario, such as `✓
/// tools-list: 4 passed, 0 failed`.
struct Run {
    output: String,
    lines: BTreeMap<String, String>,
}

impl Run {
    fn of(url: &str, revision: &str) -> Self {
        let mut suite = suite();
        suite.args(["server", "--url", url, "--requirements", revision]);
        let output = suite.output().expect("the suite runs");
        let output = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let (_, summary) = output
            .split_once("=== SUMMARY ===")
            .unwrap_or_else(|| panic!("the suite ends with a summary:\n{output}"));
        let summary = summary.split("Total:").next().unwrap_or_default();
        let named = |line: &str| {
            let (scenario, _) = line.split_once(' ')?.1.split_once(": ")?;
            Some((scenario.to_owned(), line.to_owned()))
        };
        let lines = summary.lines().filter_map(named).collect();
        Self { output, lines }
    }

    fn passes(line: &str) -> bool {
        line.starts_with('✓')
    }

    /// The numbers of passed and of all scored scenarios. The suite lists the scenarios that it
    /// does not score.
    fn scored(&self) -> (usize, usize) {
        let (_, rest) = self.output.split_once("Not scored for").unwrap_or_default();
        let unscored = |scenario: &str| {
            rest.lines().any(|line| line.split_whitespace().nth(1) == Some(scenario))
        };
        let scored = || self.lines.iter().filter(|(scenario, _)| !unscored(scenario));
        (scored().filter(|(_, line)| Self::passes(line)).count(), scored().count())
    }
}

fn suite() -> Command {
    official().node(&official().modules().join("@modelcontextprotocol/conformance/dist/index.js"))
}

/// The scenarios that may pass fewer checks through the gateway than directly, one per line with
/// its revision. A comment above each gives the reason.
fn expected_differences() -> Vec<String> {
    let file = fs::read_to_string(fixture("expected-differences.txt")).expect("the list");
    let lines = file.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

async fn passes_what_the_server_passes(revision: &str, scored: usize) {
    let everything = Everything::start().await;
    let direct = Run::of(&everything.direct, revision);
    assert_eq!(direct.scored(), (scored, scored), "directly:\n{}", direct.output);
    let through = Run::of(&everything.gateway.mcp_url(), revision);
    assert_eq!(through.scored(), (scored, scored), "through the gateway:\n{}", through.output);
    // Each scenario must pass at least as many checks.
    let lost = |(scenario, line): &(&String, &String)| {
        Run::passes(line) && through.lines.get(*scenario) != Some(*line)
    };
    let lost = direct.lines.iter().filter(lost);
    let named: Vec<_> = lost.map(|(scenario, _)| format!("{revision} {scenario}")).collect();
    let mut expected = expected_differences();
    expected.retain(|line| line.starts_with(revision));
    assert_eq!(named, expected, "the server passes these itself:\n{}", through.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_conforms_to_2025_11_25_like_server() {
    passes_what_the_server_passes("2025-11-25", 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_conforms_to_2026_07_28_like_server() {
    passes_what_the_server_passes("2026-07-28", 37).await;
}
