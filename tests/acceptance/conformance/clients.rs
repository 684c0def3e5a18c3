//! The suite's client scenarios: each is a server that judges its client, which is a gateway that
//! the Python SDK's client for the suite calls (`through.py`).
//!
//! The `auth/*` scenarios are not run: there a client logs in at an authorization server. The
//! gateway only uses configured credentials.

use std::process::Command;

use acceptance::binary;

use super::{
    everything::{here, official},
    suite,
};

/// Runs a scenario as at a revision, and asserts that all its checks pass and some were made.
fn passes(scenario: &str, revision: &str) {
    let sdk_client = official().sources().join(".github/actions/conformance/client.py");
    let parts = [official().python_path(), here("through.py"), sdk_client];
    let command = parts.map(|part| part.display().to_string()).join(" ");
    let mut suite: Command = suite();
    suite
        .args(["client", "--command", &command, "--scenario", scenario, "--spec-version", revision])
        .env("GATEWAY_AGENT", binary("gateway-agent"));
    let output = suite.output().expect("the suite runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let counted = said.lines().find_map(|line| line.strip_prefix("Passed: "));
    let is_clean = counted.is_some_and(|counts| {
        !counts.starts_with("0/") && counts.ends_with(", 0 failed, 0 warnings")
    });
    assert!(output.status.success() && is_clean, "{scenario} at {revision}:\n{said}");
}

#[test]
fn the_handshake_is_made_as_the_older_revision_says() {
    passes("initialize", "2025-11-25");
}

#[test]
fn a_tool_is_called_in_both_revisions() {
    passes("tools_call", "2025-11-25");
    passes("tools_call", "2026-07-28");
}

#[test]
fn a_broken_stream_is_resumed_when_the_server_says() {
    passes("sse-retry", "2025-11-25");
}

#[test]
fn a_question_of_an_older_server_is_answered_with_its_defaults() {
    passes("elicitation-sep1034-client-defaults", "2025-11-25");
}

#[test]
fn every_request_says_what_the_newer_revision_wants() {
    passes("request-metadata", "2026-07-28");
}

#[test]
fn the_state_of_a_question_is_given_back_unchanged() {
    passes("sep-2322-client-request-state", "2026-07-28");
}

#[test]
fn headers_repeat_the_body() {
    passes("http-standard-headers", "2026-07-28");
    passes("http-custom-headers", "2026-07-28");
}

#[test]
fn tools_that_want_impossible_headers_are_not_called() {
    passes("http-invalid-tool-headers", "2026-07-28");
}

#[test]
fn schemas_are_kept_and_nothing_is_fetched_for_them() {
    passes("json-schema-ref-no-deref", "2026-07-28");
    passes("json-schema-2020-12-preservation", "2025-11-25");
    passes("json-schema-2020-12-preservation", "2026-07-28");
}
