//! Inspection of the data of calls by the rules of their policies.
//!
//! Findings never contain the found values, except in the store of placeholders.

mod binary;
pub(crate) mod members;
mod tokens;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use gateway_policy::QuotaKey;
use inspection::{
    Classes, DigestKey, Encoding, Finding, Findings, Inspector, InvalidJson, MAX_FINDINGS, Overlap,
    Part, Placeholder, Selection, TextEnd, complete_bytes, each_string, find_placeholders,
    map_strings, redaction, rewrite_json, rewrite_text,
};
use metrics::counter;
use policy::{Direction, InspectionRules, Reason};
use registry_core::{
    Name,
    entity::policy::{DataClass, InspectionAction, Mode},
};
use schema_compat::pointer::{escape, unescape};

use self::{
    binary::BinaryContent,
    tokens::{ReplacedValue, Token, Tokens},
};
use crate::random::random_bits;

/// The class in findings about content that is not read.
const BINARY: &str = "binary";
/// The longest part of a name that is inspected for logs, in bytes. Logs have less of it.
const LOGGED_BYTES: usize = 16 * 1024;
const FINDINGS: &str = "gateway_inspection_findings_total";

/// The state of all inspections: the key of digests, and the placeholders of callers.
#[derive(Debug)]
pub(crate) struct Inspections {
    key: DigestKey,
    /// The inspector of all classes.
    all: Inspector,
    tokens: Tokens,
    /// The strictest rules of all calls of each server. Replaced for each new rule. A lock would be shared
    /// by the calls of all workers.
    servers: ArcSwap<BTreeMap<Name, Arc<InspectionRules>>>,
}

/// The inspection of one side of a call.
#[derive(Debug, Clone)]
pub(crate) struct Inspection {
    state: Arc<Inspections>,
    rules: Arc<InspectionRules>,
    direction: Direction,
    /// The owner of placeholders: the caller.
    owner: QuotaKey,
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

/// A text that can continue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenText<'a> {
    pub(crate) text: &'a str,
    /// The end of what its receiver has, which is the context of the rest.
    pub(crate) sent: usize,
    pub(crate) end: TextEnd,
}

/// A text with its findings up to a position.
#[derive(Debug)]
pub(crate) struct CheckedText {
    /// The end of the inspected part: the position, or the end of the finding around it.
    pub(crate) end: usize,
    /// The part with replaced values, from the end of the sent text. `None`: it is unchanged.
    pub(crate) changed: Option<String>,
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

/// The form of a JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form<'a> {
    /// Data at a place in a message: its JSON pointer.
    Part(&'a str),
    /// The arguments of a tool. The exceptions of policies apply to them.
    Arguments,
    /// A result or message of MCP. Its opaque members are not inspected: callers return them
    /// unchanged to the server.
    Message {
        /// The pointers of the opaque members.
        opaque: &'a [&'a str],
    },
    /// An answer or event of an agent without its sealed ids.
    Answer,
}

/// Why placeholders are not restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RestoreError {
    /// The gateway did not issue the placeholder to the caller, or it has expired.
    Unknown(Placeholder),
    /// The text with the values is too long.
    TooLong,
}

/// The lookup of the placeholders in one text. Each is searched once.
struct KnownTokens<'a> {
    tokens: &'a Tokens,
    owner: &'a QuotaKey,
    now: Instant,
    found: HashMap<Placeholder, Option<Token>>,
}

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

    /// The number of recorded actions.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().fold(0, |sum, count| sum.saturating_add(*count))
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
        let key = DigestKey::new(&key);
        let all = Inspector::new(Selection::of(DataClass::ALL), key.clone());
        Self { key, all, tokens: Tokens::default(), servers: ArcSwap::default() }
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
        })
    }

    /// Adds the rules of a call to those of its server.
    pub(crate) fn called(&self, server: &Name, rules: &Arc<InspectionRules>) {
        let merged = |known: &Arc<InspectionRules>| {
            // Most servers have one set of rules.
            if Arc::ptr_eq(known, rules) { None } else { known.with(rules).map(Arc::new) }
        };
        if self.servers.load().get(server).is_some_and(|known| merged(known).is_none()) {
            return;
        }
        self.servers.rcu(|servers| {
            let mut servers = BTreeMap::clone(servers);
            match servers.get_mut(server) {
                Some(known) => *known = merged(known).unwrap_or_else(|| Arc::clone(known)),
                None => {
                    servers.insert(server.clone(), Arc::clone(rules));
                }
            }
            servers
        });
    }

    /// The strictest rules of all calls of a server. `None`: none was inspected.
    pub(crate) fn of_calls(&self, server: &Name) -> Option<Arc<InspectionRules>> {
        self.servers.load().get(server).cloned()
    }

    /// A text without values of any class.
    pub(crate) fn without_values(&self, text: &str) -> String {
        redacted(text, &self.all).into_owned()
    }

    /// A JSON text without values of any class. `None`: names of members have values, or there are too
    /// many values.
    pub(crate) fn redacted_json(&self, json: &str) -> Option<String> {
        let found = self.all.json(json).ok().filter(|found| !found.is_truncated)?;
        rewrite_json(json, found.list.iter(), |overlap| redaction(overlap.class())).ok()
    }

    /// A name for logs without values of any class.
    pub(crate) fn logged<'t>(&self, name: &'t str) -> Cow<'t, str> {
        redacted(start_of(name), &self.all)
    }

    /// Whether placeholders were issued, so that arguments can contain them.
    pub(crate) fn has_issued(&self) -> bool {
        self.tokens.has_issued()
    }

    /// Checks that the gateway issued all placeholders in a JSON text to the caller, also those in
    /// names of members.
    pub(crate) fn check_placeholders(
        &self,
        owner: &QuotaKey,
        json: &str,
    ) -> Result<(), RestoreError> {
        self.known_tokens(owner).check(json)
    }

    fn known_tokens<'a>(&'a self, owner: &'a QuotaKey) -> KnownTokens<'a> {
        KnownTokens { tokens: &self.tokens, owner, now: Instant::now(), found: HashMap::new() }
    }

    /// The arguments with the values of the caller's placeholders, at most `max_bytes`. `may_restore`
    /// decides by the classes of a value, and by the names of the policies that replaced it. `None`:
    /// nothing is replaced.
    pub(crate) fn restore(
        &self,
        owner: &QuotaKey,
        arguments: &str,
        max_bytes: usize,
        may_restore: impl Fn(Classes, &[Name]) -> bool,
    ) -> Result<Option<String>, RestoreError> {
        let mut known = self.known_tokens(owner);
        known.check(arguments)?;
        let mut decided: HashMap<Placeholder, bool> = HashMap::new();
        let (mut error, mut is_changed, mut bytes) = (None, false, 0);
        let restored = map_strings(arguments, |text| {
            let mut restored = String::new();
            let mut end = 0;
            for (span, placeholder) in find_placeholders(text) {
                let Some(token) = known.find(placeholder) else {
                    error.get_or_insert(RestoreError::Unknown(placeholder));
                    break;
                };
                let may_restore = decided
                    .entry(placeholder)
                    .or_insert_with(|| may_restore(token.classes, &token.policies));
                if !*may_restore {
                    continue;
                }
                bytes += token.value.len();
                if bytes > max_bytes {
                    error.get_or_insert(RestoreError::TooLong);
                    break;
                }
                restored.push_str(&text[end..span.start]);
                restored.push_str(&token.value);
                end = span.end;
            }
            (end > 0 && error.is_none()).then(|| {
                is_changed = true;
                restored.push_str(&text[end..]);
                restored
            })
        });
        if let Some(error) = error {
            return Err(error);
        }
        // Texts that are not JSON are rejected by later checks.
        match restored.ok().filter(|_| is_changed) {
            Some(restored) if restored.len() > max_bytes => Err(RestoreError::TooLong),
            restored => Ok(restored),
        }
    }
}

impl KnownTokens<'_> {
    fn find(&mut self, placeholder: Placeholder) -> Option<&Token> {
        let Self { tokens, owner, now, found } = self;
        let entry = found.entry(placeholder);
        entry.or_insert_with(|| tokens.find(owner, placeholder, *now)).as_ref()
    }

    /// Texts that are not JSON are rejected by later checks.
    fn check(&mut self, json: &str) -> Result<(), RestoreError> {
        let mut unknown = None;
        let _ = each_string(json, |text| {
            for (_, placeholder) in find_placeholders(text) {
                if unknown.is_none() && self.find(placeholder).is_none() {
                    unknown = Some(placeholder);
                }
            }
        });
        unknown.map_or(Ok(()), |placeholder| Err(RestoreError::Unknown(placeholder)))
    }
}

impl Inspection {
    /// Inspects a JSON text.
    pub(crate) fn json(&self, json: &str, form: Form<'_>) -> Inspected {
        let opaque: &[&str] = if let Form::Message { opaque } = form { opaque } else { &[] };
        let find_binary: binary::Find = match form {
            Form::Part(_) | Form::Arguments | Form::Message { .. } => binary::of_result,
            Form::Answer => binary::of_answer,
        };
        let mut inspected = Inspected::default();
        let found = match self.find(|inspector| inspector.json(json)) {
            Ok(found) => found,
            Err(error) => return self.unreadable(&error),
        };
        let binary = self.binary_content(json, &found, find_binary);
        self.check_binary(binary.first.as_deref(), &mut inspected);
        let is_read = |finding: &&Finding| !opaque.contains(&&*finding.pointer);
        let fixed = |finding: &Finding| {
            // Another name would change the meaning, another text would not decode, and the next events
            // of an artifact have its id.
            finding.part == Part::Key
                || binary.wanted.contains(&*finding.pointer)
                || matches!(form, Form::Answer) && is_agent_id(&finding.pointer)
        };
        let findings = found.list.iter().filter(is_read);
        let replaced = self.apply(findings, (form, &fixed), &mut inspected);
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
        let form = Form::Part(place);
        let replaced = self.apply(found.list.iter(), (form, &|_: &Finding| false), &mut inspected);
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

    /// Inspects adjacent texts as one, which were inspected alone. Findings in one of them are theirs.
    /// `place` is the pointer of the changed text.
    pub(crate) fn adjacent(&self, texts: &[&str], place: &str) -> Inspected {
        let mut inspected = Inspected::default();
        let joined = json_string(&texts.concat());
        let found = match self.find(|inspector| inspector.json(&joined)) {
            Ok(found) => found,
            Err(error) => return self.unreadable(&error),
        };
        if found.is_empty() {
            return inspected;
        }
        let (mut known, mut start) = (HashSet::new(), 0);
        for text in texts {
            let alone = self.find(|inspector| inspector.json(&json_string(text)));
            let alone = alone.unwrap_or_default().list.into_iter();
            for Finding { detector, span, .. } in alone.filter(|found| found.inner.is_none()) {
                known.insert((detector.name(), start + span.start..start + span.end));
            }
            start += text.len();
        }
        let is_new = |finding: &&Finding| {
            let place = (finding.detector.name(), finding.span.clone());
            finding.inner.is_some() || !known.contains(&place)
        };
        let findings = found.list.iter().filter(is_new);
        let form = Form::Part(place);
        let replaced = self.apply(findings, (form, &|_: &Finding| false), &mut inspected);
        self.check_truncated(found.is_truncated, &mut inspected);
        let Replaced { findings, first } = replaced;
        if inspected.violation.is_none()
            && let Some(finding) = first
        {
            let text = rewrite_json(&joined, findings, |overlap| self.replacement(overlap));
            match text.ok().and_then(|text| serde_json::from_str(&text).ok()) {
                Some(text) => inspected.changed = Some(ChangedText { text, finding }),
                None => inspected.violation = Some(finding),
            }
        }
        inspected
    }

    /// Inspects an open text up to a position that its receiver can have. `cut` selects the position, at
    /// most the given one. `None`: there is none.
    pub(crate) fn open_text(
        &self,
        open: OpenText<'_>,
        place: &str,
        cut: impl FnOnce(usize) -> Option<usize>,
    ) -> (Option<CheckedText>, Inspected) {
        let OpenText { text, sent, end } = open;
        let mut inspected = Inspected::default();
        // Only a text without a sent beginning can be a document. A JSON string is always readable.
        let found = self.find(|inspector| match sent {
            0 => inspector.json(&json_string(text)),
            _ => Ok(inspector.text(text)),
        });
        let mut found = found.unwrap_or_default();
        found.list.sort_by_key(|finding| finding.span.start);
        let is_document = found.list.iter().any(|finding| finding.inner.is_some());
        let most = match end {
            // A document is changed as a whole.
            TextEnd::Open | TextEnd::Growing if is_document => return (None, inspected),
            _ if is_document => text.len(),
            _ => complete_bytes(text, &found.list, end),
        };
        let is_whole = |end: &usize| !is_document || *end == text.len();
        let Some(mut end) = cut(most).filter(is_whole) else { return (None, inspected) };
        let mut findings = Vec::new();
        for finding in &found.list {
            if is_document {
                findings.push(finding);
            } else if finding.span.start < end && sent < finding.span.end {
                end = end.max(finding.span.end);
                findings.push(finding);
            }
        }
        let form = Form::Part(place);
        let applied =
            self.apply(findings.into_iter(), (form, &|_: &Finding| false), &mut inspected);
        self.check_truncated(found.is_truncated, &mut inspected);
        let Replaced { findings, first } = applied;
        let mut changed = None;
        if inspected.violation.is_none()
            && let Some(finding) = first
        {
            let replacement = |overlap: &Overlap<'_>| self.replacement(overlap);
            changed = if is_document {
                let rewritten = rewrite_json(&json_string(text), findings, replacement).ok();
                rewritten.and_then(|rewritten| serde_json::from_str(&rewritten).ok())
            } else {
                let starts = findings.iter().map(|finding| finding.span.start);
                let start = starts.fold(sent, usize::min);
                Some(rewrite_text(&text[..end], findings, replacement).split_off(start))
            };
            if changed.is_none() {
                inspected.violation = Some(finding);
            }
        }
        (Some(CheckedText { end, changed }), inspected)
    }

    /// Whether enforced rules replace or block all values of each of these classes.
    pub(crate) fn hides_all(&self, classes: Classes) -> bool {
        classes.iter().all(|class| self.hides(class))
    }

    fn hides(&self, class: DataClass) -> bool {
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

    /// Applies the actions on findings. Returns those whose values are replaced. A fixed value is
    /// blocked instead.
    fn apply<'f>(
        &self,
        findings: impl Iterator<Item = &'f Finding>,
        (form, is_fixed): (Form<'_>, &dyn Fn(&Finding) -> bool),
        inspected: &mut Inspected,
    ) -> Replaced<'f> {
        let mut replaced = Replaced::default();
        let place = if let Form::Part(place) = form { place } else { "" };
        let has_exceptions = matches!(form, Form::Arguments);
        for finding in findings {
            let class = finding.class();
            let pointer = format!("{place}{}", finding.pointer);
            // The name of a member can be a found value.
            let shown = || {
                let parent = pointer.rsplit_once('/').filter(|_| finding.part == Part::Key);
                self.without_values(parent.map_or(&*pointer, |(parent, _)| parent))
            };
            for mode in [Mode::Enforce, Mode::Audit] {
                let argument = has_exceptions.then_some(&*pointer);
                let Some(rule) = self.rules.rule(mode, self.direction, class, argument) else {
                    continue;
                };
                let is_blocked = rule.action > InspectionAction::Log && is_fixed(finding);
                let action = if is_blocked { InspectionAction::Block } else { rule.action };
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
        let classes = overlap.classes();
        let policies = classes.iter().flat_map(|class| self.rules.tokenizing(class));
        let policies = policies.map(|policy| policy.key().name.clone()).collect();
        let replaced = ReplacedValue { value: overlap.value, class, classes, policies };
        let issued = self.state.tokens.issue(&self.owner, replaced, Instant::now());
        issued.map_or_else(|| redaction(class), |placeholder| placeholder.to_string())
    }

    /// The content of a result that is not text. Looks for it only if it matters.
    fn binary_content(&self, json: &str, found: &Findings, find: binary::Find) -> BinaryContent {
        let is_encoded = |finding: &&Finding| finding.encoding == Some(Encoding::Base64);
        let encoded = found.list.iter().filter(is_encoded);
        let encoded: HashSet<&str> = encoded.map(|finding| &*finding.pointer).collect();
        let matters = !encoded.is_empty() || blocks_binary(&self.rules);
        if self.direction == Direction::Results && matters {
            find(json, &encoded)
        } else {
            BinaryContent::default()
        }
    }

    fn check_binary(&self, first: Option<&str>, inspected: &mut Inspected) {
        let Some(pointer) = first else { return };
        for mode in [Mode::Enforce, Mode::Audit] {
            if let Some(policy) = self.rules.blocks_binary(mode) {
                inspected.count(self.direction, BINARY, InspectionAction::Block, mode);
                let reason = self.detected(BINARY, self.without_values(pointer));
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
        let shown = |name: &str| escape(&self.without_values(&unescape(name)));
        pointer.split('/').map(shown).collect::<Vec<_>>().join("/")
    }

    /// A name for logs without values of the inspected classes, also of those that are only logged.
    pub(crate) fn logged(&self, name: &str) -> String {
        redacted(start_of(name), &self.inspector()).into_owned()
    }

    fn detected(&self, class: &'static str, pointer: String) -> Reason {
        Reason::PiiDetected { class, direction: self.direction, pointer }
    }
}

impl Inspected {
    /// Adds the outcome for another part of the message, without its text. Keeps the first violations.
    pub(crate) fn merge(&mut self, other: Self) {
        self.violation = self.violation.take().or(other.violation);
        if self.audit.is_empty() {
            self.audit = other.audit;
        }
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

/// Whether a pointer in an answer of an agent is the id of a message or an artifact.
fn is_agent_id(pointer: &str) -> bool {
    let is_id = pointer.ends_with("/messageId") || pointer.ends_with("/artifactId");
    is_id && !pointer.contains("/parts/") && !pointer.contains("/metadata/")
}

fn json_string(text: &str) -> String {
    // A text always serializes.
    serde_json::to_string(text).unwrap_or_default()
}

fn start_of(name: &str) -> &str {
    &name[..name.floor_char_boundary(LOGGED_BYTES)]
}

fn redacted<'t>(text: &'t str, inspector: &Inspector) -> Cow<'t, str> {
    let found = inspector.text(text);
    if found.is_empty() {
        return text.into();
    }
    rewrite_text(text, found.list.iter(), |overlap| redaction(overlap.class())).into()
}

fn blocks_binary(rules: &InspectionRules) -> bool {
    let mut modes = [Mode::Enforce, Mode::Audit].into_iter();
    modes.any(|mode| rules.blocks_binary(mode).is_some())
}
