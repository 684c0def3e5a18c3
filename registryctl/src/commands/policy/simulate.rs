//! `policy simulate`: decides the calls of an audit trail again.
//!
//! The trail has no arguments, tokens, scopes or hops, so that some calls cannot be decided. They are
//! counted instead of guessed.

mod trail;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    time::SystemTime,
};

use policy::{Action, ApplicablePolicies, CallContext, PartialDecision, Purpose};
use registry_core::Key;
use serde::Serialize;

use self::trail::{Event, Line, Recorded, Trail};
use super::decide::{self, Decider, EarlierCall};
use crate::{
    batch::Batch,
    cli::{Format, SimulateArgs},
    clock,
    commands::{Session, validate},
    failure::Failure,
    screen::{Screen, TextTable},
    style::Paint,
};

/// The JSON result.
#[derive(Serialize)]
struct SimulationView {
    revision: u64,
    /// All calls of the trail, in the time of `--since`.
    calls: u64,
    unchanged: u64,
    changed: Vec<ChangeView>,
    undecided: Vec<UndecidedView>,
    skipped: SkippedView,
}

/// Calls whose decision changes.
#[derive(Serialize)]
struct ChangeView {
    from: &'static str,
    to: &'static str,
    #[serde(flatten)]
    group: Group,
    calls: u64,
}

/// Calls that cannot be decided.
#[derive(Serialize)]
struct UndecidedView {
    #[serde(flatten)]
    group: Group,
    calls: u64,
}

/// Calls of one tool by one caller, with one policy and reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Group {
    policy: String,
    tool: String,
    caller: String,
    reason: String,
}

/// Lines that are no decided calls.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SkippedView {
    /// Calls that were rejected before policies were evaluated.
    rejected_before: u64,
    /// Other operations: prompts, resources, and polls and cancellations of tasks.
    other_operations: u64,
    /// Calls before the time of `--since`.
    too_old: u64,
    /// Lines that are no JSON objects.
    unreadable: u64,
}

/// The counts of a simulation.
#[derive(Default)]
struct Counts {
    calls: u64,
    unchanged: u64,
    changed: BTreeMap<(&'static str, &'static str, Group), u64>,
    undecided: BTreeMap<Group, u64>,
    skipped: SkippedView,
}

/// The reason of calls whose arguments or context decide.
const NOT_RECORDED: &str = "context-not-recorded";

pub(super) async fn run(session: &Session, args: SimulateArgs) -> Result<(), Failure> {
    let SimulateArgs { audit, since, files, as_of } = args;
    let mut catalog = decide::fetch(session, &as_of).await?;
    if !files.is_empty() {
        catalog = validate::with_batch(session.screen, catalog, &Batch::read(&files)?)?;
    }
    let decider = Decider::new(catalog);
    let since = since.and_then(|since| clock::now().checked_sub(since));
    let (mut counts, mut known) = (Counts::default(), Known::default());
    for file in &audit {
        let mut trail = Trail::open(file)?;
        let (mut has_readable, mut has_unreadable) = (false, false);
        while let Some(line) = trail.next()? {
            has_readable |= !matches!(line, Line::Unreadable | Line::Empty);
            has_unreadable |= line == Line::Unreadable;
            count(&mut counts, &mut known, &decider, (line, since));
        }
        if has_unreadable && !has_readable {
            return Err(not_json(file));
        }
    }
    let view = SimulationView::new(decider.catalog().revision().0, counts);
    match session.screen.format {
        Format::Json => session.screen.json(&view),
        Format::Table => view.show(session.screen),
    }
}

fn not_json(path: &Path) -> Failure {
    let reason = "no line is a log event in JSON".to_owned();
    let failure = Failure::File { action: "use", path: path.to_owned(), reason };
    failure.with_help("run the gateway with --log-format json".to_owned())
}

/// The callers and tools seen so far. `None`: one of them is not registered.
#[derive(Default)]
struct Known(HashMap<(Option<String>, String), Option<Subject>>);

/// A registered caller and tool.
struct Subject {
    action: Action,
    /// The policies that apply to its calls.
    policies: Option<ApplicablePolicies>,
}

fn count(
    counts: &mut Counts,
    known: &mut Known,
    decider: &Decider,
    (line, since): (Line, Option<SystemTime>),
) {
    let event = match line {
        Line::Unreadable => return counts.skipped.unreadable += 1,
        Line::Empty | Line::Other => return,
        Line::OtherOperation => return counts.skipped.other_operations += 1,
        Line::RejectedBefore => return counts.skipped.rejected_before += 1,
        Line::Call(event) => event,
    };
    if since.is_some_and(|since| event.time < since) {
        return counts.skipped.too_old += 1;
    }
    counts.calls += 1;
    let group = |policy: &str, reason: &str| Group {
        policy: policy.to_owned(),
        tool: event.tool.clone(),
        caller: event.caller.clone().unwrap_or_else(|| "(unregistered)".to_owned()),
        reason: reason.to_owned(),
    };
    let Some(found) = known.decide_partially(decider, &event) else {
        *counts.undecided.entry(group("", "not-registered")).or_default() += 1;
        return;
    };
    match (found, &event.recorded) {
        (PartialDecision::Allowed, Recorded::Allowed)
        | (PartialDecision::Denied(_), Recorded::Denied { .. }) => counts.unchanged += 1,
        (PartialDecision::Denied(found), Recorded::Allowed) => {
            let key = ("allow", "deny", group(&text(&found.policy), found.reason.as_str()));
            *counts.changed.entry(key).or_default() += 1;
        }
        (PartialDecision::Allowed, Recorded::Denied { policy, reason }) => {
            if trail::is_state(reason) {
                *counts.undecided.entry(group(policy, "state-not-recorded")).or_default() += 1;
            } else {
                let key = ("deny", "allow", group(policy, reason));
                *counts.changed.entry(key).or_default() += 1;
            }
        }
        (PartialDecision::Undecided(policies), _) => {
            let names: Vec<_> = policies.iter().map(text).collect();
            *counts.undecided.entry(group(&names.join(", "), NOT_RECORDED)).or_default() += 1;
        }
    }
}

fn text(policy: &Key) -> String {
    format!("{}@{}", policy.name, policy.version)
}

impl Known {
    fn decide_partially(&mut self, decider: &Decider, event: &Event) -> Option<PartialDecision> {
        let key = (event.caller.clone(), event.tool.clone());
        let find = || {
            let call = decider.earlier_call(event.caller.as_deref(), &event.tool)?;
            let EarlierCall { caller, target } = call;
            let policies = decider.applicable_policies(caller.as_ref(), &target);
            Some(Subject { action: target.called().action(), policies })
        };
        let Subject { action, policies } = self.0.entry(key).or_insert_with(find).as_ref()?;
        let Some(policies) = policies else { return Some(PartialDecision::Allowed) };
        let scopes = BTreeSet::new();
        let context = CallContext {
            issuer: "",
            subject: "",
            method: &event.method,
            scopes: &scopes,
            purpose: event.purpose.unwrap_or(Purpose::Call),
            hops: 0,
            time: event.time,
        };
        let known: &[&[&str]] = match event.purpose {
            Some(_) => &[&["caller", "method"], &["time"], &["purpose"]],
            None => &[&["caller", "method"], &["time"]],
        };
        Some(policies.decide_partially(*action, &context, known))
    }
}

impl SimulationView {
    fn new(revision: u64, counts: Counts) -> Self {
        let Counts { calls, unchanged, changed, undecided, skipped } = counts;
        let change = |((from, to, group), calls)| ChangeView { from, to, group, calls };
        Self {
            revision,
            calls,
            unchanged,
            changed: changed.into_iter().map(change).collect(),
            undecided: undecided
                .into_iter()
                .map(|(group, calls)| UndecidedView { group, calls })
                .collect(),
            skipped,
        }
    }

    fn show(&self, screen: Screen) -> Result<(), Failure> {
        let heading = ["CHANGE", "POLICY", "TOOL", "CALLER", "REASON", "CALLS"];
        if !self.changed.is_empty() {
            let mut table = TextTable::new(&heading);
            for ChangeView { from, to, group, calls } in &self.changed {
                let Group { policy, tool, caller, reason } = group;
                let (change, calls) = (format!("{from} -> {to}"), calls.to_string());
                let paint = if *to == "deny" { Paint::Bad } else { Paint::Good };
                table.painted(paint, [&change, policy, tool, caller, reason, &calls]);
            }
            screen.table(&table)?;
        }
        if !self.undecided.is_empty() {
            let mut table = TextTable::new(&["UNDECIDED", "POLICY", "TOOL", "CALLER", "CALLS"]);
            for UndecidedView { group, calls } in &self.undecided {
                let Group { policy, tool, caller, reason } = group;
                table.painted(Paint::Careful, [reason, policy, tool, caller, &calls.to_string()]);
            }
            screen.table(&table)?;
            if self.undecided.iter().any(|view| view.group.reason == NOT_RECORDED) {
                let note = "these policies read arguments, tokens, scopes or hops, which the audit \
                            trail does not have";
                screen.line(note)?;
            }
        }
        let changed: u64 = self.changed.iter().map(|change| change.calls).sum();
        let undecided: u64 = self.undecided.iter().map(|group| group.calls).sum();
        let Self { calls, unchanged, skipped, .. } = self;
        screen.line(&format!(
            "{calls} calls: {unchanged} unchanged, {changed} changed, {undecided} undecided"
        ))?;
        let SkippedView { rejected_before, other_operations, too_old, unreadable } = skipped;
        let skipped = rejected_before + other_operations + too_old + unreadable;
        if skipped > 0 {
            screen.line(&format!(
                "skipped: {rejected_before} rejected before policies, {other_operations} other \
                 operations, {too_old} too old, {unreadable} not readable"
            ))?;
        }
        Ok(())
    }
}
