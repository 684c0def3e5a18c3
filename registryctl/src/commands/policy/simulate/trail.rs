//! Reads the audit trail of gateways: log lines in JSON.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use policy::Purpose;
use registry_core::Timestamp;
use serde_json::Value;

use super::super::decide::system_time;
use crate::failure::Failure;

/// Maximum length of a line in bytes. Longer lines are unreadable.
const LINE_BYTES: u64 = 1 << 20;

/// The event of a step of a composition.
const STEP: &str = "composition/step";

/// The events of calls of tools and of messages to skills: MCP, A2A, `agent.execute`, `POST /execute`
/// and AIO.
const CALLS: [&str; 11] = [
    "tools/call",
    STEP,
    "SendMessage",
    "SendStreamingMessage",
    "agent.execute",
    "execute",
    "tools.call",
    "call",
    "input",
    "sampling.start",
    "sampling.step",
];

/// The lines of a file.
pub(super) struct Trail {
    path: PathBuf,
    reader: Box<dyn BufRead>,
}

/// One line.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// No JSON object.
    Unreadable,
    /// White space.
    Empty,
    /// No audit event.
    Other,
    /// An audit event of another operation than a call.
    OtherOperation,
    /// A call that was rejected before policies were evaluated.
    RejectedBefore,
    /// A call.
    Call(Event),
}

/// A call in an audit trail.
#[derive(Debug, PartialEq)]
pub(super) struct Event {
    pub(super) time: SystemTime,
    /// `NAME@VERSION` of the registered agent.
    pub(super) caller: Option<String>,
    /// `NAME@VERSION` of a tool, or `AGENT/SKILL`.
    pub(super) tool: String,
    pub(super) method: String,
    /// `None`: a step in an event of an earlier gateway.
    pub(super) purpose: Option<Purpose>,
    pub(super) recorded: Recorded,
}

/// The recorded decision of policies.
#[derive(Debug, PartialEq)]
pub(super) enum Recorded {
    Allowed,
    Denied {
        /// The policy, `NAME@VERSION`. Empty: not recorded.
        policy: String,
        reason: String,
    },
}

/// Reasons of policies that depend on earlier calls, on unrecorded values, on the age of the catalog or
/// on decisions of people.
pub(super) fn is_state(reason: &str) -> bool {
    matches!(
        reason,
        "RATE_LIMITED"
            | "BUDGET_EXCEEDED"
            | "STALE_POLICY"
            | "PII_DETECTED"
            | "APPROVAL_REQUIRED"
            | "APPROVAL_UNAVAILABLE"
            | "APPROVAL_DENIED"
    )
}

/// Whether an allowed call ended without a decision of policies. Policies may have allowed a `denied` call whose step or
/// server denied it; a caller without scopes is denied before routing, which sets `tool_version` and `policies`.
fn ended_before(outcome: &str, is_routed: bool) -> bool {
    match outcome {
        "denied" => !is_routed,
        outcome => matches!(outcome, "invalid-input" | "misconfigured"),
    }
}

impl Trail {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let reader: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(path).map_err(|e| Failure::unreadable(path, e))?;
            Box::new(BufReader::new(file))
        };
        Ok(Self { path: path.to_owned(), reader })
    }

    /// The next line. `None`: the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Failure> {
        let mut line = Vec::new();
        let failed = |e| Failure::unreadable(&self.path, e);
        let mut limited = (&mut self.reader).take(LINE_BYTES);
        if limited.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(None);
        }
        if !line.ends_with(b"\n") && line.len() as u64 == LINE_BYTES {
            self.reader.skip_until(b'\n').map_err(|e| Failure::unreadable(&self.path, e))?;
            return Ok(Some(Line::Unreadable));
        }
        Ok(Some(read(&line)))
    }
}

fn read(line: &[u8]) -> Line {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Line::Empty;
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(line) else { return Line::Unreadable };
    if fields.get("target").and_then(Value::as_str) != Some("audit") {
        return Line::Other;
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let (Some(event), Some(permit)) = (text("event"), text("permit")) else { return Line::Other };
    if !CALLS.contains(&event) {
        return Line::OtherOperation;
    }
    let is_routed = text("tool_version").or(text("policies")).is_some();
    let recorded = match permit.strip_prefix("deny:") {
        None if text("outcome").is_some_and(|outcome| ended_before(outcome, is_routed)) => {
            return Line::RejectedBefore;
        }
        None => Recorded::Allowed,
        Some(reason) if is_state(reason) || matches!(reason, "UNAUTHORIZED" | "POLICY_ERROR") => {
            let policy = denying(text("policies").unwrap_or_default());
            Recorded::Denied { policy, reason: reason.to_owned() }
        }
        Some(_) => return Line::RejectedBefore,
    };
    let time = text("timestamp").and_then(|time| Timestamp::parse(time).ok());
    let (Some(time), Some(tool)) = (time, text("tool")) else { return Line::Unreadable };
    let at = |name: &str, version: Option<&str>| match version {
        Some(version) => format!("{name}@{version}"),
        None => name.to_owned(),
    };
    // Events of earlier gateways have `SKILL of AGENT`.
    let tool = match tool.split_once(" of ") {
        Some((skill, agent)) => format!("{agent}/{skill}"),
        None if tool.contains('/') => tool.to_owned(),
        None => at(tool, text("tool_version")),
    };
    Line::Call(Event {
        time: system_time(time),
        caller: text("agent").map(|agent| at(agent, text("agent_version"))),
        tool,
        method: text("identified_by").unwrap_or("none").to_owned(),
        purpose: if event == STEP {
            text("purpose").and_then(Purpose::parse)
        } else {
            Some(Purpose::Call)
        },
        recorded,
    })
}

/// The policy of `NAME@VERSION:deny:REASON` in a list of verdicts.
fn denying(verdicts: &str) -> String {
    let mut verdicts = verdicts.split(' ');
    let denying = verdicts.find_map(|verdict| verdict.split_once(":deny:"));
    denying.map(|(policy, _)| policy.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(changes: &Value) -> Line {
        let mut event = json!({
            "timestamp": "2026-11-26T05:00:00.000Z", "target": "audit", "event": "tools/call",
            "agent": "a", "agent_version": "1.0.0", "tool": "pay", "tool_version": "2.0.0",
            "identified_by": "token", "permit": "allow", "outcome": "ok",
        });
        event.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        read(event.to_string().as_bytes())
    }

    #[test]
    fn calls_have_caller_tool_and_decision() {
        let denied = json!({ "permit": "deny:UNAUTHORIZED",
            "policies": "a@1.0.0:undecided b@1.0.0:deny:UNAUTHORIZED" });
        let Line::Call(event) = line(&denied) else { panic!("a call") };
        assert_eq!((event.caller.as_deref(), &*event.tool), (Some("a@1.0.0"), "pay@2.0.0"));
        let (policy, reason) = ("b@1.0.0".to_owned(), "UNAUTHORIZED".to_owned());
        assert_eq!(event.recorded, Recorded::Denied { policy, reason });
        for skill in ["team/clerk/work", "work of team/clerk"] {
            let Line::Call(event) = line(&json!({ "tool": skill })) else { panic!("a call") };
            assert_eq!(event.tool, "team/clerk/work");
        }
    }

    #[test]
    fn calls_of_all_protocols_are_read() {
        // As gateways record them.
        for (event, tool) in [
            ("tools/call", "pay"),
            ("composition/step", "pay"),
            ("SendMessage", "clerk/work"),
            ("SendStreamingMessage", "clerk/work"),
            ("agent.execute", "clerk/work"),
            ("execute", "pay"),
            ("tools.call", "pay"),
            ("call", "pay"),
            ("input", "clerk/work"),
            ("sampling.start", "clerk/work"),
            ("sampling.step", "clerk/work"),
        ] {
            let Line::Call(call) = line(&json!({ "event": event, "tool": tool })) else {
                panic!("{event}")
            };
            let expected = if tool == "pay" { "pay@2.0.0" } else { tool };
            assert_eq!(call.tool, expected, "{event}");
        }
        for event in ["GetTask", "CancelTask", "tasks/get", "prompts.get", "resources.get"] {
            assert_eq!(line(&json!({ "event": event })), Line::OtherOperation, "{event}");
        }
    }

    #[test]
    fn allowed_composition_with_denied_step_is_a_call() {
        let outer = json!({ "tool": "outer", "outcome": "denied", "policies": "p@1.0.0:allow" });
        let skill = json!({ "tool": "team/clerk/work", "tool_version": null, "outcome": "denied",
            "policies": "p@1.0.0:allow" });
        for (changes, tool) in [(outer, "outer@2.0.0"), (skill, "team/clerk/work")] {
            let Line::Call(event) = line(&changes) else { panic!("{tool}") };
            assert_eq!((&*event.tool, event.recorded), (tool, Recorded::Allowed));
        }
    }

    #[test]
    fn steps_have_recorded_purpose() {
        for (purpose, expected) in [
            (json!("step"), Some(Purpose::Step)),
            (json!("compensation"), Some(Purpose::Compensation)),
            (json!(null), None),
        ] {
            let step = json!({ "event": "composition/step", "purpose": purpose });
            let Line::Call(event) = line(&step) else { panic!("{purpose}") };
            assert_eq!(event.purpose, expected);
        }
    }

    #[test]
    fn denials_of_all_reasons_have_policies() {
        let reasons = [
            "UNAUTHORIZED",
            "POLICY_ERROR",
            "RATE_LIMITED",
            "STALE_POLICY",
            "BUDGET_EXCEEDED",
            "PII_DETECTED",
            "APPROVAL_REQUIRED",
        ];
        for reason in reasons {
            let denied = json!({ "permit": format!("deny:{reason}"),
                "policies": format!("a@1.0.0:undecided b@1.0.0:deny:{reason}") });
            let Line::Call(event) = line(&denied) else { panic!("{reason}") };
            let (policy, reason) = ("b@1.0.0".to_owned(), reason.to_owned());
            assert_eq!(event.recorded, Recorded::Denied { policy, reason });
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        assert_eq!(read(b"listening on 127.0.0.1"), Line::Unreadable);
        assert_eq!(read(b" \r\n"), Line::Empty);
        assert_eq!(line(&json!({ "target": "gateway" })), Line::Other);
        assert_eq!(line(&json!({ "event": "resources/read" })), Line::OtherOperation);
        assert_eq!(line(&json!({ "permit": "deny:no-such-tool" })), Line::RejectedBefore);
        // The caller lacks scopes.
        let unscoped = json!({ "outcome": "denied", "tool_version": null });
        assert_eq!(line(&unscoped), Line::RejectedBefore);
        assert_eq!(line(&json!({ "outcome": "invalid-input" })), Line::RejectedBefore);
        assert_eq!(line(&json!({ "outcome": "misconfigured" })), Line::RejectedBefore);
        assert_eq!(line(&json!({ "timestamp": "yesterday" })), Line::Unreadable);
    }

    #[test]
    fn long_line_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("audit.jsonl");
        let long = "x".repeat(3 << 20);
        std::fs::write(&file, format!("{long}\n{{\"target\":\"other\"}}\n")).unwrap();
        let mut trail = Trail::open(&file).unwrap();
        assert_eq!(trail.next().unwrap(), Some(Line::Unreadable));
        assert_eq!(trail.next().unwrap(), Some(Line::Other));
        assert_eq!(trail.next().unwrap(), None);
    }
}
