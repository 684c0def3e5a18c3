//! The official conformance suite, the official SDKs and the Inspector against the gateway.
//!
//! Everything official is fetched from the indexes of Python and npm at the versions in `conformance/`; nothing of it
//! is changed. Deliberately absent: the suite's authorization scenarios (see docs/conformance.md).

mod clients;
mod everything;
mod rust;
mod sdks;

use std::{collections::BTreeMap, fs, process::Command};

use everything::{Everything, here, official};

/// One run of a requirement set: what it printed, and scenario by scenario whether it passed.
struct Run {
    output: String,
    passed: BTreeMap<String, bool>,
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
        let line = |line: &str| {
            let (mark, rest) = line.trim().split_once(' ')?;
            let (scenario, _) = rest.split_once(": ")?;
            Some((scenario.to_owned(), mark == "✓"))
        };
        let passed = summary.lines().filter_map(line).collect();
        Self { output, passed }
    }

    /// How many of the scored scenarios pass, and how many there are. Which are scored, the suite
    /// says by listing those that are not.
    fn scored(&self) -> (usize, usize) {
        let (_, rest) = self.output.split_once("Not scored for").unwrap_or_default();
        let unscored = |scenario: &str| {
            rest.lines().any(|line| line.split_whitespace().nth(1) == Some(scenario))
        };
        let scored: Vec<_> = self
            .passed
            .iter()
            .filter(|(scenario, _)| !unscored(scenario))
            .map(|(_, passed)| *passed)
            .collect();
        (scored.iter().filter(|passed| **passed).count(), scored.len())
    }
}

/// The suite's command line.
fn suite() -> Command {
    official().node(&official().modules().join("@modelcontextprotocol/conformance/dist/index.js"))
}

/// The scenarios that may fail through the gateway though the server passes them, one a line with
/// its revision; why is in the comment above each.
fn expected_differences() -> Vec<String> {
    let file = fs::read_to_string(here("expected-differences.txt")).expect("the list");
    let lines = file.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

async fn passes_what_the_server_passes(revision: &str, scored: usize) {
    let everything = Everything::start().await;
    let direct = Run::of(&everything.direct, revision);
    assert_eq!(direct.scored(), (scored, scored), "directly:\n{}", direct.output);
    let through = Run::of(&everything.gateway.mcp_url(), revision);
    assert_eq!(through.scored(), (scored, scored), "through the gateway:\n{}", through.output);
    let lost = |(scenario, passed): &(&String, &bool)| {
        **passed && through.passed.get(*scenario) != Some(&true)
    };
    let lost: Vec<_> = direct.passed.iter().filter(lost).map(|(scenario, _)| scenario).collect();
    let named: Vec<_> = lost.iter().map(|scenario| format!("{revision} {scenario}")).collect();
    let mut expected = expected_differences();
    expected.retain(|line| line.starts_with(revision));
    assert_eq!(named, expected, "the server passes these itself:\n{}", through.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_conforms_to_2025_11_25_as_the_server_does() {
    passes_what_the_server_passes("2025-11-25", 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_conforms_to_2026_07_28_as_the_server_does() {
    passes_what_the_server_passes("2026-07-28", 37).await;
}
