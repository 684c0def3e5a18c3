//! `policy explain`: the decision about one call, with the part of each policy.

use std::path::Path;

use policy::{
    Direction, Explanation, Finding, InspectionRules, PolicyPart, Reason, StatementOutcome,
    StatementPart,
};
use registry_core::{Key, document::parse_json, entity::policy::Mode};
use schema_compat::schema_compile::Violation;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    arguments::FinalArguments,
    decide::{Decider, Facts, Target},
};
use crate::{
    cli::{CatalogArgs, ExplainArgs, Format},
    commands::Session,
    failure::Failure,
    input::Source,
    screen::{Screen, TextTable},
    style::{Paint, printable},
};

/// The JSON result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplanationView {
    revision: u64,
    caller: Option<String>,
    called: String,
    /// Whether the caller declares a dependency on the called tool or skill.
    declared: bool,
    /// The arguments as the server receives them.
    arguments: Map<String, Value>,
    invalid_arguments: Vec<InvalidArgumentView>,
    /// The tools and skills that the steps of a composition call, whose policies are not evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    #[serde(flatten)]
    decision: DecisionView,
    audit: Vec<ViolationView>,
    policies: Vec<PolicyView>,
    /// The strictest action on each class of data in the arguments and the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inspection: Vec<InspectionView>,
}

/// The action on data of one class.
#[derive(Serialize)]
struct InspectionView {
    direction: &'static str,
    class: &'static str,
    action: &'static str,
    policy: String,
    mode: &'static str,
}

/// A hidden argument, or a violation of the input schema.
#[derive(Serialize)]
struct InvalidArgumentView {
    pointer: String,
    message: String,
}

/// A decision: `allow`, `deny` with its reason, or `invalid` if gateways reject the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DecisionView {
    pub(super) decision: &'static str,
    #[serde(flatten)]
    pub(super) violation: Option<ViolationView>,
}

/// A violation of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ViolationView {
    pub(super) policy: String,
    pub(super) reason: &'static str,
    /// The error of a condition, or the exceeded limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

#[derive(Serialize)]
struct PolicyView {
    policy: String,
    mode: &'static str,
    selection: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<ViolationView>,
    statements: Vec<StatementView>,
}

#[derive(Serialize)]
struct StatementView {
    effect: &'static str,
    /// The line in the Cedar text of the policy.
    line: usize,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn run(session: &Session, args: ExplainArgs) -> Result<(), Failure> {
    let ExplainArgs { tool, arguments, caller, variables, facts, catalog } = args;
    let arguments = read_arguments(&arguments)?;
    let decider = Decider::open(session, &catalog).await?;
    let missing = |message| not_found(message, &catalog);
    let caller = caller.map(|name| decider.caller(&name)).transpose().map_err(missing)?;
    let target = decider.target(&tool, caller.as_ref()).map_err(missing)?;
    let facts = Facts::from(facts);
    let call = (caller.as_ref(), &target);
    let arguments = decider.final_arguments(call, &arguments, &variables.by_name());
    let arguments = arguments.map_err(Failure::Usage)?;
    let explanation = decider.explain(call, &arguments.members, &facts);
    let view = ExplanationView::new(&decider, call, arguments, &explanation);
    match session.screen.format {
        Format::Json => session.screen.json(&view),
        Format::Table => {
            view.show(session.screen)?;
            let hops = facts.hops.saturating_add(1);
            let remedy = format!("explain them as well, with --purpose step --hops {hops}");
            if let Some(note) = target.note_of_steps(&remedy) {
                eprintln!("{}", printable(&note));
            }
            Ok(())
        }
    }
}

/// The failure of a name that is not in the catalog.
pub(in crate::commands) fn not_found(message: String, catalog: &CatalogArgs) -> Failure {
    let failure = Failure::RequestRejected { reason: "NOT_FOUND".to_owned(), message };
    failure.with_known_help(catalog.help_for_missing())
}

/// Reads a JSON object, or that of `@FILE`.
fn read_arguments(text: &str) -> Result<Map<String, Value>, Failure> {
    let parsed = match text.strip_prefix('@') {
        Some(file) => {
            let source = Source::read(Path::new(file))?;
            parse_json(source.text().as_bytes())
        }
        None => parse_json(text.as_bytes()),
    };
    match parsed {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Failure::Usage("the arguments are not a JSON object".to_owned())),
        Err(e) => Err(Failure::Usage(format!("invalid arguments: {e}"))),
    }
}

impl DecisionView {
    pub(super) fn of(denial: Option<&Finding>) -> Self {
        let violation = denial.map(|found| ViolationView::new(&found.policy, &found.reason));
        Self { decision: if denial.is_some() { "deny" } else { "allow" }, violation }
    }
}

impl ViolationView {
    pub(super) fn new(policy: &Key, reason: &Reason) -> Self {
        let detail = match reason {
            Reason::PolicyError(error) => Some(error.clone()),
            Reason::TraceLimited { what, limit } => Some(format!("more than {limit} {what}")),
            Reason::ApprovalRequired(_) => Some("the call needs an approval".to_owned()),
            _ => None,
        };
        let policy = format!("{}@{}", policy.name, policy.version);
        Self { policy, reason: reason.as_str(), detail }
    }
}

impl InspectionView {
    fn list(rules: &InspectionRules) -> Vec<Self> {
        let mut found = Vec::new();
        for direction in [Direction::Arguments, Direction::Results] {
            for class in rules.classes(direction) {
                for mode in [Mode::Enforce, Mode::Audit] {
                    // Exceptions cover single arguments only.
                    let Some(rule) = rules.rule(mode, direction, class, None) else { continue };
                    let policy = rule.policy.key();
                    found.push(Self {
                        direction: direction.as_str(),
                        class: class.as_str(),
                        action: rule.action.as_str(),
                        policy: format!("{}@{}", policy.name, policy.version),
                        mode: mode.as_str(),
                    });
                }
            }
        }
        found
    }
}

impl ExplanationView {
    fn new(
        decider: &Decider,
        (caller, target): (Option<&Key>, &Target),
        FinalArguments { members: arguments, violations, is_rejected }: FinalArguments,
        Explanation { verdict, policies, inspection }: &Explanation,
    ) -> Self {
        let audit = verdict.audit.iter();
        let invalid = violations.into_iter();
        let decision = if is_rejected {
            DecisionView { decision: "invalid", violation: None }
        } else {
            DecisionView::of(verdict.denial.as_ref())
        };
        Self {
            revision: decider.catalog().revision().0,
            caller: caller.map(ToString::to_string),
            called: target.text(),
            declared: caller.is_some_and(|caller| decider.declares(caller, target)),
            arguments,
            invalid_arguments: invalid
                .map(|Violation { pointer, message }| InvalidArgumentView { pointer, message })
                .collect(),
            steps: target.steps(),
            decision,
            audit: audit.map(|found| ViolationView::new(&found.policy, &found.reason)).collect(),
            policies: policies.iter().map(PolicyView::from).collect(),
            inspection: inspection.as_deref().map(InspectionView::list).unwrap_or_default(),
        }
    }

    fn show(&self, screen: Screen) -> Result<(), Failure> {
        let Self { caller, called, decision: DecisionView { decision, violation }, .. } = self;
        let caller = caller.as_deref().unwrap_or("an unregistered caller");
        screen.line(&match violation {
            Some(violation) => format!("{decision}: {violation}"),
            None => (*decision).to_owned(),
        })?;
        screen.line(&format!("{caller} calls {called}"))?;
        for InvalidArgumentView { pointer, message } in &self.invalid_arguments {
            screen.line(&printable(&format!("invalid argument at {pointer:?}: {message}")))?;
        }
        self.note_invalid();
        self.note_undeclared();
        if self.policies.is_empty() {
            return screen.line("no policy is in force");
        }
        let mut table = TextTable::new(&["POLICY", "MODE", "SELECTION", "RESULT"]);
        for PolicyView { policy, mode, selection, violation, .. } in &self.policies {
            let result = match violation {
                Some(violation) => violation.result(),
                None if *selection == "selected" => "no violation".to_owned(),
                None => String::new(),
            };
            let cells = [policy.as_str(), *mode, *selection, &*result];
            match violation {
                Some(_) => table.painted(Paint::Bad, cells),
                None if *selection == "selected" => table.row(cells),
                None => table.painted(Paint::Dim, cells),
            }
        }
        screen.table(&table)?;
        let mut table = TextTable::new(&["POLICY", "LINE", "STATEMENT", "RESULT"]);
        let mut is_empty = true;
        for PolicyView { policy, statements, .. } in &self.policies {
            for StatementView { effect, line, result, error } in statements {
                let error = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
                let result = format!("{result}{error}");
                table.row([policy.as_str(), &*line.to_string(), *effect, &*result]);
                is_empty = false;
            }
        }
        if !is_empty {
            screen.table(&table)?;
        }
        self.show_inspection(screen)
    }

    fn show_inspection(&self, screen: Screen) -> Result<(), Failure> {
        if self.inspection.is_empty() {
            return Ok(());
        }
        let mut table = TextTable::new(&["INSPECTION", "CLASS", "ACTION", "POLICY", "MODE"]);
        for InspectionView { direction, class, action, policy, mode } in &self.inspection {
            table.row([*direction, *class, *action, policy.as_str(), *mode]);
        }
        screen.table(&table)
    }

    /// Explains what gateways do with the invalid arguments.
    fn note_invalid(&self) {
        if self.invalid_arguments.is_empty() {
            return;
        }
        if self.decision.decision == "invalid" {
            eprintln!("note: gateways reject such calls before they evaluate policies");
        } else {
            eprintln!(
                "note: the arguments are invalid, but no condition reads them; gateways serve such \
                 calls by default, and reject them with `inputValidation: deny`"
            );
        }
    }

    /// Names the setting of gateways for calls without a declaration.
    fn note_undeclared(&self) {
        let Self { caller, called, declared, .. } = self;
        if *declared {
            return;
        }
        let (problem, setting) = match caller {
            Some(caller) => (format!("{caller} does not declare {called}"), "undeclaredDependency"),
            None => ("the caller is not registered".to_owned(), "unknownCaller"),
        };
        eprintln!(
            "note: {problem}; gateways serve such calls by default, and reject them with \
             `{setting}: deny`"
        );
    }
}

impl std::fmt::Display for ViolationView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { policy, reason, detail } = self;
        let detail = detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        write!(f, "{reason} by policy/{policy}{detail}")
    }
}

impl ViolationView {
    fn result(&self) -> String {
        let detail = self.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        format!("{}{detail}", self.reason)
    }
}

impl From<&PolicyPart> for PolicyView {
    fn from(part: &PolicyPart) -> Self {
        let PolicyPart { policy, selection, statements, violation } = part;
        let key = policy.key();
        Self {
            policy: format!("{}@{}", key.name, key.version),
            mode: policy.mode().as_str(),
            selection: selection.as_str(),
            violation: violation.as_ref().map(|reason| ViolationView::new(key, reason)),
            statements: statements.iter().map(StatementView::from).collect(),
        }
    }
}

impl From<&StatementPart> for StatementView {
    fn from(StatementPart { is_permit, line, outcome }: &StatementPart) -> Self {
        let (result, error) = match outcome {
            StatementOutcome::Satisfied => ("satisfied", None),
            StatementOutcome::Unsatisfied => ("unsatisfied", None),
            StatementOutcome::Failed(error) => ("failed", Some(error.clone())),
        };
        Self { effect: if *is_permit { "permit" } else { "forbid" }, line: *line, result, error }
    }
}
