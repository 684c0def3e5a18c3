//! Inspection of the data of calls by the rules of their policies.
//!
//! Findings never contain the found values, except in the store of placeholders.

mod binary;
mod tokens;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use gateway_policy::QuotaKey;
use inspection::{
    DigestKey, Finding, Findings, Inspector, InvalidJson, MAX_FINDINGS, Overlap, Part, Placeholder,
    Selection, find_placeholders, map_strings, redaction, rewrite_json, rewrite_text,
};
use metrics::counter;
use policy::{Direction, InspectionRules, Reason};
use registry_core::{
    Name,
    entity::policy::{DataClass, InspectionAction, Mode},
};

use self::tokens::Tokens;
use crate::random::random_bits;

/// The class in findings about content that is not read.
const BINARY: &str = "binary";
/// Members of results and messages that callers return unchanged to the server. A changed one would
/// be invalid.
const OPAQUE: [&str; 4] = ["/requestState", "/taskId", "/task/taskId", "/progressToken"];
const FINDINGS: &str = "gateway_inspection_findings_total";

/// The state of all inspections: the key of digests, and the placeholders of callers.
#[derive(Debug)]
pub(crate) struct Inspections {
    key: DigestKey,
    tokens: Tokens,
}

/// The inspection of one side of a call.
#[derive(Debug, Clone)]
pub(crate) struct Inspection {
    state: Arc<Inspections>,
    rules: Arc<InspectionRules>,
    direction: Direction,
    /// The owner of placeholders: the caller.
    owner: QuotaKey,
    /// Whether the exceptions of policies apply.
    has_exceptions: bool,
}

/// The outcome of an inspection.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    /// The text with replaced values. `None`: it is unchanged.
    pub(crate) changed: Option<ChangedText>,
    /// The violation that rejects the text.
    pub(crate) violation: Option<policy::Finding>,
    /// The violations of policies in audit mode.
    pub(crate) audit: Vec<policy::Finding>,
    /// The applied actions.
    pub(crate) actions: Vec<AppliedAction>,
}

/// A text with replaced values.
#[derive(Debug)]
pub(crate) struct ChangedText {
    pub(crate) text: String,
    /// The violation by the first replaced value, for a text that cannot be changed.
    pub(crate) finding: policy::Finding,
}

/// Findings whose values are replaced.
#[derive(Debug, Default)]
struct Replaced<'f> {
    findings: Vec<&'f Finding>,
    first: Option<policy::Finding>,
}

/// The action on one finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AppliedAction {
    pub(crate) direction: &'static str,
    pub(crate) class: &'static str,
    pub(crate) action: &'static str,
    pub(crate) mode: &'static str,
}

/// The actions of all inspections of one call. Its copies share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct InspectionLog(Arc<Mutex<BTreeMap<AppliedAction, u64>>>);

/// A placeholder that the gateway did not issue to the caller, or that has expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownPlaceholder(pub(crate) Placeholder);

impl InspectionLog {
    /// Records and counts actions.
    pub(crate) fn add(&self, actions: &[AppliedAction]) {
        if actions.is_empty() {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for applied in actions {
            *counts.entry(*applied).or_default() += 1;
            let AppliedAction { direction, class, action, mode } = *applied;
            counter!(FINDINGS, "direction" => direction, "class" => class, "action" => action, "mode" => mode)
                .increment(1);
        }
    }

    /// The text for audit events: `DIRECTION.CLASS:ACTION=COUNT`, with `audit-` before the actions of
    /// policies in audit mode, separated by spaces. `None`: nothing was found.
    pub(crate) fn text(&self) -> Option<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |(applied, count): (&AppliedAction, &u64)| {
            let AppliedAction { direction, class, action, mode } = applied;
            let mode = if *mode == Mode::Audit.as_str() { "audit-" } else { "" };
            format!("{direction}.{class}:{mode}{action}={count}")
        };
        let text = counts.iter().map(count).collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    }
}

impl Default for Inspections {
    fn default() -> Self {
        // The digests do not leave the process, so the key needs no secrecy.
        let mut key = [0; 32];
        for half in key.chunks_exact_mut(16) {
            half.copy_from_slice(&random_bits().unwrap_or_default().to_le_bytes());
        }
        Self { key: DigestKey::new(&key), tokens: Tokens::default() }
    }
}

impl Inspections {
    /// The inspection of a direction. `None`: the rules have no action in it.
    pub(crate) fn of(
        self: &Arc<Self>,
        rules: &Arc<InspectionRules>,
        direction: Direction,
        owner: &QuotaKey,
    ) -> Option<Inspection> {
        let is_inspected = rules.classes(direction).next().is_some()
            || direction == Direction::Results && blocks_binary(rules);
        is_inspected.then(|| Inspection {
            state: Arc::clone(self),
            rules: Arc::clone(rules),
            direction,
            owner: owner.clone(),
            has_exceptions: false,
        })
    }

    /// A text without values of any class.
    pub(crate) fn without_values(&self, text: &str) -> String {
        redacted(text, &Inspector::new(Selection::of(DataClass::ALL), self.key.clone()))
    }

    /// Whether placeholders were issued, so that arguments can contain them.
    pub(crate) fn has_issued(&self) -> bool {
        self.tokens.has_issued()
    }

    /// The arguments with the values of the caller's placeholders. `may_restore` decides by the class
    /// of a value, and by the names of the policies that replaced it. `None`: nothing is replaced.
    pub(crate) fn restore(
        &self,
        owner: &QuotaKey,
        arguments: &str,
        may_restore: impl Fn(DataClass, &[Name]) -> bool,
    ) -> Result<Option<String>, UnknownPlaceholder> {
        let (mut unknown, mut is_changed) = (None, false);
        let now = Instant::now();
        let restored = map_strings(arguments, |text| {
            let mut restored = String::new();
            let mut end = 0;
            for (span, placeholder) in find_placeholders(text) {
                let Some(token) = self.tokens.find(owner, placeholder, now) else {
                    unknown.get_or_insert(placeholder);
                    continue;
                };
                if may_restore(placeholder.class, &token.policies) {
                    restored.push_str(&text[end..span.start]);
                    restored.push_str(&token.value);
                    end = span.end;
                }
            }
            (end > 0).then(|| {
                is_changed = true;
                restored.push_str(&text[end..]);
                restored
            })
        });
        match (unknown, restored) {
            (Some(placeholder), _) => Err(UnknownPlaceholder(placeholder)),
            // Texts that are not JSON are rejected by later checks.
            (None, restored) => Ok(restored.ok().filter(|_| is_changed)),
        }
    }
}

impl Inspection {
    /// The inspection of the arguments of a tool. The exceptions of policies apply to them.
    pub(crate) fn with_exceptions(&self) -> Self {
        Self { has_exceptions: true, ..self.clone() }
    }

    /// Inspects a JSON text. Content of MCP that is not text is skipped. `place` is the pointer of the
    /// text in the message.
    pub(crate) fn json(&self, json: &str, place: &str) -> Inspected {
        self.form(json, place, binary::pointers)
    }

    /// Inspects an answer or event of an agent without its ids. Files in it are skipped.
    pub(crate) fn answer(&self, json: &str) -> Inspected {
        self.form(json, "", binary::pointers_of_agent)
    }

    /// `binary` finds the content of a protocol that is not text.
    fn form(&self, json: &str, place: &str, binary: fn(&str) -> Vec<String>) -> Inspected {
        let mut inspected = Inspected::default();
        let found = match self.find(|inspector| inspector.json(json)) {
            Ok(found) => found,
            Err(error) => return self.unreadable(&error),
        };
        let binary = self.binary_pointers(json, !found.is_empty(), binary);
        self.check_binary(&binary, &mut inspected);
        let is_opaque = |pointer: &str| {
            self.direction == Direction::Results && place.is_empty() && OPAQUE.contains(&pointer)
        };
        let is_read = |finding: &&Finding| {
            let pointer = &*finding.pointer;
            !is_opaque(pointer) && !binary.iter().any(|binary| binary == pointer)
        };
        let replaced = self.apply(found.list.iter().filter(is_read), place, &mut inspected);
        self.check_truncated(found.is_truncated, &mut inspected);
        let Replaced { findings, first } = replaced;
        if inspected.violation.is_none()
            && let Some(finding) = first
        {
            match rewrite_json(json, findings, |overlap| self.replacement(overlap)) {
                Ok(text) => inspected.changed = Some(ChangedText { text, finding }),
                // Findings in keys are violations already.
                Err(_) => inspected.violation = Some(finding),
            }
        }
        inspected
    }

    /// Inspects a text. `place` is its pointer in the message.
    pub(crate) fn text(&self, text: &str, place: &str) -> Inspected {
        let mut inspected = Inspected::default();
        let Ok(found) = self.find(|inspector| Ok::<_, Infallible>(inspector.text(text)));
        let replaced = self.apply(found.list.iter(), place, &mut inspected);
        self.check_truncated(found.is_truncated, &mut inspected);
        let Replaced { findings, first } = replaced;
        if inspected.violation.is_none()
            && let Some(finding) = first
        {
            let text = rewrite_text(text, findings, |overlap| self.replacement(overlap));
            inspected.changed = Some(ChangedText { text, finding });
        }
        inspected
    }

    /// Whether enforced rules replace or block all values of a class.
    pub(crate) fn hides(&self, class: DataClass) -> bool {
        let rule = self.rules.rule(Mode::Enforce, self.direction, class, None);
        rule.is_some_and(|rule| rule.action > InspectionAction::Log)
    }

    fn inspector(&self) -> Inspector {
        let classes = self.rules.classes(self.direction);
        Inspector::new(Selection::of(classes), self.state.key.clone())
    }

    /// Searches for values. With too many findings, the classes that are replaced or blocked are
    /// searched alone: findings that are only recorded must not reject a text.
    fn find<E>(&self, search: impl Fn(&Inspector) -> Result<Findings, E>) -> Result<Findings, E> {
        let mut all = search(&self.inspector())?;
        if !all.is_truncated {
            return Ok(all);
        }
        let hidden: Vec<_> =
            self.rules.classes(self.direction).filter(|class| self.hides(*class)).collect();
        all.list.retain(|finding| !hidden.contains(&finding.class()));
        let selection = Selection::of(hidden);
        let mut found = search(&Inspector::new(selection, self.state.key.clone()))?;
        found.list.append(&mut all.list);
        Ok(found)
    }

    /// Applies the actions on findings. Returns those whose values are replaced.
    fn apply<'f>(
        &self,
        findings: impl Iterator<Item = &'f Finding>,
        place: &str,
        inspected: &mut Inspected,
    ) -> Replaced<'f> {
        let mut replaced = Replaced::default();
        for finding in findings {
            let class = finding.class();
            let pointer = format!("{place}{}", finding.pointer);
            // The name of a member can be a found value.
            let shown = || {
                let parent = pointer.rsplit_once('/').filter(|_| finding.part == Part::Key);
                self.without_values(parent.map_or(&*pointer, |(parent, _)| parent))
            };
            for mode in [Mode::Enforce, Mode::Audit] {
                let argument = self.has_exceptions.then_some(&*pointer);
                let Some(rule) = self.rules.rule(mode, self.direction, class, argument) else {
                    continue;
                };
                // Another name would change the meaning of the document.
                let is_key = finding.part == Part::Key && rule.action > InspectionAction::Log;
                let action = if is_key { InspectionAction::Block } else { rule.action };
                inspected.count(self.direction, class.as_str(), action, mode);
                match (action, mode) {
                    (InspectionAction::Log, _) => {}
                    (InspectionAction::Block, _) => {
                        let reason = self.detected(class.as_str(), shown());
                        let policy = rule.policy.key().clone();
                        inspected.violate(mode, policy::Finding { policy, reason });
                    }
                    (_, Mode::Enforce) => {
                        let policy = rule.policy.key();
                        replaced.first.get_or_insert_with(|| policy::Finding {
                            policy: policy.clone(),
                            reason: self.detected(class.as_str(), shown()),
                        });
                        replaced.findings.push(finding);
                    }
                    (_, Mode::Audit) => {}
                }
            }
        }
        replaced
    }

    /// The text that replaces findings: that of the strictest action.
    fn replacement(&self, overlap: &Overlap<'_>) -> String {
        let class = overlap.class();
        let is_redacted = |finding: &&Finding| {
            let class = finding.class();
            let rule = self.rules.rule(Mode::Enforce, self.direction, class, None);
            rule.is_none_or(|rule| rule.action != InspectionAction::Tokenize)
        };
        if overlap.findings.iter().any(is_redacted) {
            return redaction(class);
        }
        let classes = overlap.findings.iter().map(|finding| finding.class());
        let policies = classes.flat_map(|class| self.rules.tokenizing(class));
        let policies = policies.map(|policy| policy.key().name.clone());
        let issued =
            self.state.tokens.issue(&self.owner, class, overlap.value, policies, Instant::now());
        issued.map_or_else(|| redaction(class), |placeholder| placeholder.to_string())
    }

    /// The places of content that is not text. Looks for them only if they matter.
    fn binary_pointers(
        &self,
        json: &str,
        has_findings: bool,
        pointers: fn(&str) -> Vec<String>,
    ) -> Vec<String> {
        let matters = has_findings || blocks_binary(&self.rules);
        if self.direction == Direction::Results && matters { pointers(json) } else { Vec::new() }
    }

    fn check_binary(&self, pointers: &[String], inspected: &mut Inspected) {
        let Some(pointer) = pointers.first() else { return };
        for mode in [Mode::Enforce, Mode::Audit] {
            if let Some(policy) = self.rules.blocks_binary(mode) {
                inspected.count(self.direction, BINARY, InspectionAction::Block, mode);
                let reason = self.detected(BINARY, pointer.clone());
                let policy = policy.key().clone();
                inspected.violate(mode, policy::Finding { policy, reason });
            }
        }
    }

    /// Rejects a text with more findings than are listed: a rewritten text would contain the others.
    fn check_truncated(&self, is_truncated: bool, inspected: &mut Inspected) {
        let reason = || {
            Reason::PolicyError(format!("inspection: there are more than {MAX_FINDINGS} findings"))
        };
        if is_truncated && let Some(violation) = self.strictest(reason) {
            inspected.violation.get_or_insert(violation);
        }
    }

    /// A text that cannot be read is rejected by the strictest rule.
    fn unreadable(&self, error: &InvalidJson) -> Inspected {
        let reason = || Reason::PolicyError(format!("inspection: {error}"));
        Inspected { violation: self.strictest(reason), ..Inspected::default() }
    }

    /// The violation of the enforced rule with the strictest action, unless it only logs.
    fn strictest(&self, reason: impl FnOnce() -> Reason) -> Option<policy::Finding> {
        let rule = self.rules.strictest(Mode::Enforce, self.direction)?;
        (rule.action > InspectionAction::Log).then(|| {
            let policy = rule.policy.key().clone();
            policy::Finding { policy, reason: reason() }
        })
    }

    /// A pointer or message of the gateway without values of any class.
    pub(crate) fn without_values(&self, text: &str) -> String {
        self.state.without_values(text)
    }

    /// A JSON pointer without values of any class. Each name is searched alone, because a number in a
    /// path is no finding.
    pub(crate) fn pointer_without_values(&self, pointer: &str) -> String {
        let shown = |name: &str| {
            let name = self.without_values(&name.replace("~1", "/").replace("~0", "~"));
            name.replace('~', "~0").replace('/', "~1")
        };
        pointer.split('/').map(shown).collect::<Vec<_>>().join("/")
    }

    /// A text without values of the inspected classes, also of those that are only logged.
    pub(crate) fn without_inspected(&self, text: &str) -> String {
        redacted(text, &self.inspector())
    }

    fn detected(&self, class: &'static str, pointer: String) -> Reason {
        Reason::PiiDetected { class, direction: self.direction, pointer }
    }
}

impl Inspected {
    /// Adds the outcome for another part of the message, without its text.
    pub(crate) fn merge(&mut self, other: Self) {
        self.violation = self.violation.take().or(other.violation);
        self.audit.extend(other.audit);
        self.actions.extend(other.actions);
    }

    fn count(
        &mut self,
        direction: Direction,
        class: &'static str,
        action: InspectionAction,
        mode: Mode,
    ) {
        let (direction, action, mode) = (direction.as_str(), action.as_str(), mode.as_str());
        self.actions.push(AppliedAction { direction, class, action, mode });
    }

    /// Keeps the first violation.
    fn violate(&mut self, mode: Mode, finding: policy::Finding) {
        match mode {
            Mode::Enforce => {
                self.violation.get_or_insert(finding);
            }
            Mode::Audit if self.audit.is_empty() => self.audit.push(finding),
            Mode::Audit => {}
        }
    }
}

fn redacted(text: &str, inspector: &Inspector) -> String {
    let found = inspector.text(text);
    rewrite_text(text, found.list.iter(), |overlap| redaction(overlap.class()))
}

fn blocks_binary(rules: &InspectionRules) -> bool {
    let mut modes = [Mode::Enforce, Mode::Audit].into_iter();
    modes.any(|mode| rules.blocks_binary(mode).is_some())
}
