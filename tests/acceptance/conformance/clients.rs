//! The suite's client scenarios. Each scenario is a server that checks its client. The client is a
//! gateway, which the suite client of the Python SDK calls (`through.py`). The `auth/*` scenarios
//! are not run: they need a client that logs in at an authorization server, and the gateway only
//! uses configured credentials.

use std::process::Command;

use acceptance::binary;

use super::{
    everything::{fixture, official},
    suite,
};

/// Runs a scenario at a revision. Asserts that at least one check was made and that all pass.
fn passes(scenario: &str, revision: &str) {
    let sdk_client = official().sources().join(".github/actions/conformance/client.py");
    let parts = [official().python_path(), fixture("through.py"), sdk_client];
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
fn client_initializes_legacy_session() {
    passes("initialize", "2025-11-25");
}

#[test]
fn client_calls_tool_in_both_revisions() {
    passes("tools_call", "2025-11-25");
    passes("tools_call", "2026-07-28");
}

#[test]
fn client_resumes_broken_stream_after_retry_delay() {
    passes("sse-retry", "2025-11-25");
}

#[test]
fn client_answers_legacy_elicitation_with_defaults() {
    passes("elicitation-sep1034-client-defaults", "2025-11-25");
}

#[test]
fn modern_requests_have_required_metadata() {
    passes("request-metadata", "2026-07-28");
}

#[test]
fn request_state_is_returned_unchanged() {
    passes("sep-2322-client-request-state", "2026-07-28");
}

#[test]
fn headers_match_body() {
    passes("http-standard-headers", "2026-07-28");
    passes("http-custom-headers", "2026-07-28");
}

#[test]
fn tools_with_invalid_header_annotations_are_excluded() {
    passes("http-invalid-tool-headers", "2026-07-28");
}

#[test]
fn schemas_are_unchanged_and_never_fetched() {
    passes("json-schema-ref-no-deref", "2026-07-28");
    passes("json-schema-2020-12-preservation", "2025-11-25");
    passes("json-schema-2020-12-preservation", "2026-07-28");
}
