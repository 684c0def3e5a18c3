//! Reads the file of cases strictly.

use std::{collections::HashSet, fmt, sync::Arc};

use policy::Purpose;
use registry_core::{Timestamp, suggest::closest};
use schema_compat::pointer::pointer_join;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::{
    decide::{Facts, system_time},
    explain::ViolationView,
};
use crate::{
    cli::METHODS,
    clock,
    input::{Part, Source},
    report::{Finding, Level, Location},
    suggest,
};

/// Maximum number of cases in a file.
const CASES: usize = 10_000;
/// Maximum number of reported problems.
const PROBLEMS: usize = 100;
/// The reasons of conditions, limits on hops, and demanded approvals.
const REASONS: [&str; 4] = ["UNAUTHORIZED", "POLICY_ERROR", "RATE_LIMITED", "APPROVAL_REQUIRED"];
const MEMBERS: [&str; 14] = [
    "name",
    "caller",
    "tool",
    "arguments",
    "expect",
    "reason",
    "policy",
    "method",
    "issuer",
    "subject",
    "scopes",
    "purpose",
    "hops",
    "time",
];

/// A call with its expected decision.
pub(super) struct Case {
    pub(super) name: String,
    /// The agent. `None`: an unregistered caller.
    pub(super) caller: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) facts: Facts,
    pub(super) expected: Expectation,
    /// JSON pointer of the case.
    pub(super) pointer: String,
    pub(super) line: Option<usize>,
}

/// The expected decision.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Expectation {
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// A policy that denies the call: `NAME` or `NAME@VERSION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
}

/// A defect of a case.
pub(super) struct Problem {
    pointer: String,
    part: Part,
    message: String,
    help: Option<String>,
}

impl Problem {
    pub(super) fn new(pointer: String, message: String) -> Self {
        Self { pointer, part: Part::Value, message, help: None }
    }

    pub(super) fn with_help(self, help: Option<&str>) -> Self {
        Self { help: help.map(str::to_owned), ..self }
    }
}

impl Expectation {
    pub(super) fn allows(&self) -> bool {
        self.decision == "allow"
    }

    /// Whether this violation is the expected one.
    pub(super) fn is_met_by(&self, found: &ViolationView) -> bool {
        let is_policy = |policy: &String| {
            let name = found.policy.split('@').next();
            found.policy == *policy || name == Some(policy.as_str())
        };
        !self.allows()
            && self.reason.as_deref().is_none_or(|reason| reason == found.reason)
            && self.policy.as_ref().is_none_or(is_policy)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.decision)?;
        if let Some(reason) = &self.reason {
            write!(f, " {reason}")?;
        }
        match &self.policy {
            Some(policy) => write!(f, " by policy/{policy}"),
            None => Ok(()),
        }
    }
}

/// The cases of a file, and its problems.
pub(super) fn cases(source: &Source) -> (Vec<Case>, Vec<Problem>) {
    let root = String::new;
    let value = match source.value() {
        Ok(value) => value,
        Err(error) => {
            let place = error.position.map(|at| format!(" at line {}", at.line));
            let message = format!("{}{}", error.message, place.unwrap_or_default());
            let help = Some(error.help().to_owned());
            return (Vec::new(), vec![Problem { help, ..Problem::new(root(), message) }]);
        }
    };
    let list = match &value {
        Value::Object(members) if members.keys().all(|name| name == "cases") => {
            members.get("cases").and_then(Value::as_array)
        }
        _ => None,
    };
    let Some(list) = list else {
        let message = "the file is not an object with the list `cases`".to_owned();
        let help = Some("write cases: [{ name, caller, tool, arguments, expect }]".to_owned());
        return (Vec::new(), vec![Problem { help, ..Problem::new(root(), message) }]);
    };
    if list.is_empty() || list.len() > CASES {
        let message = format!("the file has {} cases; expected 1 to {CASES}", list.len());
        return (Vec::new(), vec![Problem::new("/cases".to_owned(), message)]);
    }
    let (mut problems, mut names) = (Vec::new(), HashSet::new());
    let mut cases = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let mut reader = Reader { pointer: format!("/cases/{index}"), problems: &mut problems };
        if let Some(case) = reader.case(value) {
            if !names.insert(case.name.clone()) {
                reader.report("name", format!("the name `{}` is used twice", case.name));
            }
            cases.push(case);
        }
    }
    let pointers: Vec<_> = cases.iter().map(|case| (case.pointer.as_str(), Part::Value)).collect();
    let positions = source.locate(&pointers);
    for (case, position) in cases.iter_mut().zip(positions) {
        case.line = position.map(|position| position.line);
    }
    (cases, problems)
}

/// The problems with their locations.
pub(super) fn findings(source: &Arc<Source>, mut problems: Vec<Problem>) -> Vec<Finding> {
    problems.truncate(PROBLEMS);
    let parts: Vec<_> = problems.iter().map(|one| (one.pointer.as_str(), one.part)).collect();
    let positions = source.locate(&parts);
    let finding = |(problem, position): (&Problem, _)| Finding {
        code: "case-invalid".to_owned(),
        severity: Level::Error,
        entity: None,
        pointer: problem.pointer.clone(),
        message: problem.message.clone(),
        help: problem.help.clone(),
        location: Some(Location::new(source, position)),
        change: None,
    };
    problems.iter().zip(positions).map(finding).collect()
}

/// Reads one case.
struct Reader<'a> {
    pointer: String,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn report(&mut self, member: &str, message: String) {
        self.problems.push(Problem::new(pointer_join(&self.pointer, member), message));
    }

    fn case(&mut self, value: &Value) -> Option<Case> {
        let Value::Object(members) = value else {
            self.problems
                .push(Problem::new(self.pointer.clone(), "a case is no object".to_owned()));
            return None;
        };
        let before = self.problems.len();
        for name in members.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
            let message = format!("unknown field `{name}`");
            let help = closest(name, MEMBERS).map(|one| format!("did you mean `{one}`?"));
            let pointer = pointer_join(&self.pointer, name);
            self.problems.push(Problem { pointer, part: Part::Key, message, help });
        }
        let name = self.required(members, "name");
        let tool = self.required(members, "tool");
        let caller = self.text(members, "caller");
        let arguments = self.arguments(members);
        let expected = self.expectation(members);
        let facts = self.facts(members);
        (self.problems.len() == before).then_some(())?;
        let (pointer, line) = (self.pointer.clone(), None);
        Some(Case {
            name: name?,
            caller,
            tool: tool?,
            arguments,
            facts,
            expected: expected?,
            pointer,
            line,
        })
    }

    fn required(&mut self, members: &Map<String, Value>, member: &str) -> Option<String> {
        if members.get(member).is_none_or(Value::is_null) {
            let message = format!("the case has no `{member}`");
            self.problems.push(Problem::new(self.pointer.clone(), message));
            return None;
        }
        self.text(members, member)
    }

    fn text(&mut self, members: &Map<String, Value>, member: &str) -> Option<String> {
        match members.get(member)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            _ => {
                self.report(member, format!("`{member}` is no string"));
                None
            }
        }
    }

    /// One of these words, or the first without the member.
    fn word(
        &mut self,
        members: &Map<String, Value>,
        member: &str,
        words: &[&str],
    ) -> Option<String> {
        let text = self.text(members, member)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let message = format!("`{text}` is not one of {}", words.join(", "));
        let similar = closest(&text, words.iter().copied());
        self.report(member, suggest::with_suggestion(message, similar));
        None
    }

    fn arguments(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        match members.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => {
                self.report("arguments", "`arguments` is no object".to_owned());
                Map::new()
            }
        }
    }

    fn expectation(&mut self, members: &Map<String, Value>) -> Option<Expectation> {
        self.required(members, "expect")?;
        let decision = match self.word(members, "expect", &["allow", "deny"])?.as_str() {
            "allow" => "allow",
            _ => "deny",
        };
        let reason = self.word(members, "reason", &REASONS);
        let policy = self.text(members, "policy");
        let policy = policy.map(|name| name.trim_start_matches("policy/").to_owned());
        for (member, is_set) in [("reason", reason.is_some()), ("policy", policy.is_some())] {
            if decision == "allow" && is_set {
                self.report(member, format!("an allowed call has no `{member}`"));
            }
        }
        Some(Expectation { decision, reason, policy })
    }

    fn facts(&mut self, members: &Map<String, Value>) -> Facts {
        let method = self.word(members, "method", &METHODS).unwrap_or_else(|| "none".to_owned());
        let issuer = self.text(members, "issuer").unwrap_or_default();
        let subject = self.text(members, "subject").unwrap_or_default();
        let purposes = Purpose::ALL.map(Purpose::as_str);
        let purpose = self.word(members, "purpose", &purposes);
        let purpose = purpose.and_then(|name| Purpose::parse(&name)).unwrap_or(Purpose::Call);
        let scopes = match members.get("scopes") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(scopes)) => {
                scopes.iter().map(|scope| scope.as_str().map(str::to_owned)).collect()
            }
            Some(_) => None,
        };
        if scopes.is_none() {
            self.report("scopes", "`scopes` is no list of strings".to_owned());
        }
        let hops = members.get("hops").filter(|hops| !hops.is_null());
        let read = |hops: &Value| hops.as_u64().and_then(|hops| u32::try_from(hops).ok());
        if hops.is_some_and(|hops| read(hops).is_none()) {
            self.report("hops", "`hops` is no number from 0 to 4294967295".to_owned());
        }
        let hops = hops.and_then(read).unwrap_or_default();
        let time = self.text(members, "time").map(|time| Timestamp::parse(&time));
        let time = match time {
            None => clock::now(),
            Some(Ok(time)) => system_time(time),
            Some(Err(e)) => {
                self.report("time", e.to_string());
                clock::now()
            }
        };
        let scopes = scopes.unwrap_or_default().into_iter().collect();
        Facts { issuer, subject, method, scopes, purpose, hops, time }
    }
}
