//! Conditions in Cedar: parsing, type checking and evaluation.
//!
//! No other module uses Cedar's types.

mod call_types;
mod complexity;
mod evaluate;
mod reads;
mod schema;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, str::FromStr as _};

use cedar_policy::{
    Effect, PolicyId, PolicySet, ValidationError, ValidationMode, ValidationResult,
    ValidationWarning,
};
use miette::Diagnostic as _;

pub(crate) use self::{
    call_types::{CallTypes, CallTypesPool},
    evaluate::{CallEntities, Evaluation, Request, StatementSet},
};
use self::{complexity::find_complexity, reads::Reads};
use crate::{Action, Purpose, ResourceKind, arguments::ArgumentType};

/// Maximum number of problems of one text.
const PROBLEMS: usize = 20;

/// The remedy for an argument without a readable type.
const UNREADABLE_HELP: &str = "register a version whose `inputSchema` declares the argument with \
                               one type, or remove the condition";

/// The parsed statements of a policy.
#[derive(Debug, Clone)]
pub struct Conditions {
    text: String,
    statements: Vec<Statement>,
}

/// One `permit` or `forbid`.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    policy: cedar_policy::Policy,
    reads: Reads,
    line: usize,
}

/// An entity that a statement names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedEntity {
    /// The line of the statement, from 1.
    pub(crate) line: usize,
    /// The Cedar entity type, such as `Tool`.
    pub(crate) entity_type: String,
    /// The id, such as the name of a tool.
    pub(crate) id: String,
}

/// The result of a type check.
#[derive(Debug)]
pub(crate) struct TypeCheck {
    pub(crate) problems: Vec<CedarProblem>,
    /// The indexes of statements that no call of these types satisfies.
    pub(crate) unsatisfiable: BTreeSet<usize>,
}

/// A defect of a Cedar text. Its position is that in the text, not in the file of the policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CedarProblem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The defect.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// Whether other types of the arguments can solve it.
    pub is_of_arguments: bool,
}

impl fmt::Display for CedarProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cedar line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl CedarProblem {
    fn of_statement(line: usize, message: String, help: Option<String>) -> Self {
        Self { line, column: 1, message, help, is_of_arguments: false }
    }
}

impl Statement {
    pub(crate) fn is_permit(&self) -> bool {
        self.policy.effect() == Effect::Permit
    }

    /// Whether it reads the caller.
    pub(crate) fn reads_caller(&self) -> bool {
        self.reads.caller
    }

    pub(crate) fn reads_context(&self) -> bool {
        self.reads.has_context()
    }

    pub(crate) fn reads_arguments(&self) -> bool {
        self.reads.arguments().next().is_some()
    }

    /// Whether all members of `context` that it reads have one of these paths.
    pub(crate) fn reads_only(&self, known: &[&[&str]]) -> bool {
        self.reads.is_within(known)
    }

    /// The line of its first word, from 1.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// Explains why an argument that it reads has no type.
    fn find_unreadable(&self, arguments: &ArgumentType) -> Option<String> {
        self.reads.arguments().find_map(|path| {
            let (pointer, reason) = arguments.find_unreadable(path)?;
            let path = path.join(".");
            let place = if pointer.is_empty() { String::new() } else { format!(" ({pointer})") };
            Some(format!("conditions cannot read the argument `{path}`: {reason}{place}"))
        })
    }
}

impl Conditions {
    /// Parses statements. Time and memory are bounded by the size of the text.
    pub fn parse(text: &str) -> Result<Self, Vec<CedarProblem>> {
        if let Some(problem) = find_complexity(text) {
            return Err(vec![problem]);
        }
        let set = PolicySet::from_str(text).map_err(|errors| {
            let problems = errors.iter().take(PROBLEMS).map(|error| {
                let offset = error.labels().and_then(|mut labels| labels.next());
                let offset = offset.map_or(0, |label| label.offset());
                problem(text, offset, error.to_string(), error.help().map(|help| help.to_string()))
            });
            problems.collect::<Vec<_>>()
        })?;
        if set.templates().next().is_some() {
            let help = "write a constant in place of the slot".to_owned();
            return Err(vec![problem(text, 0, "templates are not supported".into(), Some(help))]);
        }
        let lines = statement_lines(text);
        let statements = set.policies().map(|policy| -> Result<_, Vec<CedarProblem>> {
            let line = index_of(policy.id()).and_then(|index| lines.get(index).copied());
            let line = line.unwrap_or(1);
            let json = policy.to_json().map_err(|error| {
                let message = error.to_string();
                vec![CedarProblem::of_statement(line, message, None)]
            })?;
            Ok(Statement { policy: policy.clone(), reads: Reads::of(&json), line })
        });
        let mut statements = statements.collect::<Result<Vec<_>, _>>()?;
        statements.sort_by_key(Statement::line);
        let unknown = statements.iter().flat_map(|statement| {
            let line = statement.line;
            statement.reads.unknown_purposes().map(move |purpose| unknown_purpose(line, purpose))
        });
        let unknown: Vec<_> = unknown.take(PROBLEMS).collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        Ok(Self { text: text.to_owned(), statements })
    }

    /// Whether a statement is a `permit`.
    pub fn has_permit(&self) -> bool {
        self.statements.iter().any(Statement::is_permit)
    }

    /// Whether a statement reads arguments.
    pub fn reads_arguments(&self) -> bool {
        self.statements.iter().any(Statement::reads_arguments)
    }

    /// Whether a statement reads the hops.
    pub(crate) fn reads_hops(&self) -> bool {
        self.statements.iter().any(|statement| statement.reads.reads("hops"))
    }

    /// The arguments that statements read and that calls with none of these types can have, with the
    /// line of the statement.
    pub(crate) fn undeclared_arguments<'a>(
        &'a self,
        types: impl Iterator<Item = &'a ArgumentType> + Clone + 'a,
    ) -> impl Iterator<Item = (usize, &'a [String])> {
        self.statements.iter().flat_map(move |statement| {
            let types = types.clone();
            let undeclared =
                move |path: &&[String]| !types.clone().any(|arguments| arguments.can_have(path));
            statement.reads.arguments().filter(undeclared).map(|path| (statement.line, path))
        })
    }

    pub(crate) fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// The entities that statements name, by line. Without the entity of unregistered callers.
    pub(crate) fn named_entities(&self) -> BTreeSet<NamedEntity> {
        let of_statement = |statement: &Statement| {
            let line = statement.line;
            let named =
                statement.policy.entity_literals().into_iter().map(move |uid| NamedEntity {
                    line,
                    entity_type: uid.type_name().to_string(),
                    id: uid.id().unescaped().to_owned(),
                });
            named.filter(|named| named.entity_type != "Agent" || named.id != evaluate::UNKNOWN)
        };
        self.statements.iter().flat_map(of_statement).collect()
    }

    /// The type errors of all statements for calls of resources of a kind with these arguments.
    pub fn check(&self, kind: ResourceKind, arguments: &ArgumentType) -> Vec<CedarProblem> {
        self.check_types(&CallTypes::new(0, kind, arguments.clone())).problems
    }

    /// Checks the types of all statements for calls of these types.
    pub(crate) fn check_types(&self, calls: &CallTypes) -> TypeCheck {
        let failed = |message: String| TypeCheck {
            problems: vec![problem(&self.text, 0, message, None)],
            unsatisfiable: BTreeSet::new(),
        };
        let policies = self.statements.iter().map(|statement| statement.policy.clone());
        let set = match PolicySet::from_policies(policies) {
            Ok(set) => set,
            Err(error) => return failed(error.to_string()),
        };
        let validated =
            calls.validate(|validator| Some(validator?.validate(&set, ValidationMode::Strict)));
        if let Some(result) = validated {
            return self.read_result(&result, calls.arguments());
        }
        let mut failed = failed("the schema of the arguments has no form in Cedar".into());
        for problem in &mut failed.problems {
            problem.is_of_arguments = true;
        }
        failed
    }

    fn read_result(&self, result: &ValidationResult, arguments: &ArgumentType) -> TypeCheck {
        let failed: BTreeSet<_> =
            result.validation_errors().map(ValidationError::policy_id).collect();
        // Cedar accepts such a read if `has` guards it, and the condition would never be satisfied.
        let guarded =
            self.statements.iter().filter(|statement| !failed.contains(statement.policy.id()));
        let guarded = guarded.filter_map(|statement| {
            let message = statement.find_unreadable(arguments)?;
            let help = Some(UNREADABLE_HELP.to_owned());
            let problem = CedarProblem::of_statement(statement.line, message, help);
            Some(CedarProblem { is_of_arguments: true, ..problem })
        });
        let problems: BTreeSet<_> = result
            .validation_errors()
            .map(|error| {
                let offset = error.labels().and_then(|mut labels| labels.next());
                let offset = offset.map_or(0, |label| label.offset());
                let message = without_policy_id(&error.to_string());
                let mut statements = self.statements.iter();
                let statement =
                    statements.find(|statement| statement.policy.id() == error.policy_id());
                let unreadable = || {
                    let reason = statement?.find_unreadable(arguments)?;
                    Some(format!("{reason}; {UNREADABLE_HELP}"))
                };
                let reads_arguments = statement.is_some_and(Statement::reads_arguments);
                let is_of_arguments = reads_arguments && is_of_arguments(error, &message);
                let help = find_remedy(error, &message)
                    .map(str::to_owned)
                    .or_else(unreadable)
                    .or_else(|| Some(without_policy_id(&error.help()?.to_string())));
                let problem = problem(&self.text, offset, message, help);
                CedarProblem { is_of_arguments, ..problem }
            })
            .chain(guarded)
            .collect();
        let unsatisfiable = result.validation_warnings().filter_map(|warning| {
            let is_unsatisfiable = matches!(
                warning,
                ValidationWarning::ImpossiblePolicy(_)
                    | ValidationWarning::InvalidActionApplication(_)
            );
            let mut statements = self.statements.iter();
            let index = statements.position(|one| one.policy.id() == warning.policy_id());
            index.filter(|_| is_unsatisfiable)
        });
        TypeCheck {
            unsatisfiable: unsatisfiable.collect(),
            problems: problems.into_iter().take(PROBLEMS).collect(),
        }
    }
}

/// A statement compares the purpose with a text that no call has.
fn unknown_purpose(line: usize, purpose: &str) -> CedarProblem {
    let known = Purpose::ALL.map(Purpose::as_str).join(", ");
    let message = format!("no call has the purpose {purpose:?}");
    let help = format!("compare `context.purpose` with one of {known}");
    CedarProblem::of_statement(line, message, Some(help))
}

/// Whether an action without arguments reads them.
fn lacks_arguments(message: &str) -> bool {
    let is_place = |action: Action| {
        let place = format!("`arguments` in context for Action::\"{}\"", action.as_str());
        !action.has_arguments() && message.contains(&place)
    };
    Action::ALL.into_iter().any(is_place)
}

/// Whether other types of the arguments can solve an error of a statement that reads them.
fn is_of_arguments(error: &ValidationError, message: &str) -> bool {
    match error {
        ValidationError::UnrecognizedEntityType(_) | ValidationError::UnrecognizedActionId(_) => {
            false
        }
        ValidationError::UnsafeAttributeAccess(_)
        | ValidationError::UnsafeOptionalAttributeAccess(_) => {
            let is_argument =
                message.contains("`arguments") && message.contains(" in context for ");
            is_argument && !lacks_arguments(message)
        }
        _ => true,
    }
}

/// The remedy of an error, if Cedar suggests none or a wrong one.
fn find_remedy(error: &ValidationError, message: &str) -> Option<&'static str> {
    match error {
        ValidationError::UnsafeAttributeAccess(_) if lacks_arguments(message) => Some(
            "only calls of tools and messages to skills have arguments: restrict the statement \
                 with `action == Action::\"call\"` or `action == Action::\"send\"`",
        ),
        ValidationError::UnexpectedType(_) | ValidationError::IncompatibleTypes(_)
            if message.split_whitespace().any(|word| word == "decimal") =>
        {
            Some(
                "compare a `number` with `.greaterThan(decimal(\"10.0\"))`, \
                 `.lessThan(decimal(\"10.0\"))` or `== decimal(\"10.0\")`, and an `integer` with \
                 `> 10`",
            )
        }
        _ => None,
    }
}

/// Removes "for policy `ID`, ", which names the generated id of a statement.
fn without_policy_id(message: &str) -> String {
    let (_, rest) = message
        .strip_prefix("for policy ")
        .and_then(|rest| rest.split_once(", "))
        .unwrap_or(("", message));
    rest.to_owned()
}

/// A problem at a byte offset of a text.
fn problem(text: &str, offset: usize, message: String, help: Option<String>) -> CedarProblem {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    CedarProblem {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message,
        help,
        is_of_arguments: false,
    }
}

/// The number of a parsed statement. Cedar names them `policy0`, `policy1` and so on.
fn index_of(id: &PolicyId) -> Option<usize> {
    let id: &str = id.as_ref();
    id.strip_prefix("policy")?.parse().ok()
}

/// The line of each statement, from 1.
fn statement_lines(text: &str) -> Vec<usize> {
    let (mut lines, mut is_between) = (Vec::new(), true);
    let (mut line, mut counted) = (1, 0);
    for (offset, c) in outside_comments_and_strings(text) {
        if c == ';' {
            is_between = true;
        } else if is_between && !c.is_whitespace() && c != '/' {
            is_between = false;
            line += text[counted..offset].matches('\n').count();
            counted = offset;
            lines.push(line);
        }
    }
    lines
}

/// The characters outside of comments and of the content of strings, with their offsets. Cedar ends
/// comments at carriage returns too.
fn outside_comments_and_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut is_quoted, mut is_comment, mut previous) = (false, false, ' ');
    text.char_indices().filter(move |&(_, c)| {
        let before = std::mem::replace(&mut previous, c);
        if is_comment {
            is_comment = !matches!(c, '\n' | '\r');
            return false;
        }
        if is_quoted {
            is_quoted = c != '"' || before == '\\';
            if before == '\\' {
                // A pair of backslashes escapes no quote.
                previous = ' ';
            }
            return false;
        }
        is_quoted = c == '"';
        is_comment = c == '/' && before == '/';
        true
    })
}
