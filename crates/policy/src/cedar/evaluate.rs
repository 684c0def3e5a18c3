//! Evaluation of statements for one caller and one resource.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy,
    PolicyId, PolicySet, RestrictedExpression,
};
use serde_json::{Map, Value};

use super::{Reads, Statement};
use crate::{
    Action, CallContext, Caller, Resource,
    arguments::{ArgumentType, Attribute},
};

/// Statements of several policies that are evaluated together. Each has the number of its policy.
#[derive(Debug, Clone)]
pub(crate) struct StatementSet {
    /// The reason, if Cedar rejects the set. Each evaluation then fails.
    set: Result<PolicySet, String>,
    reads: Reads,
}

/// The caller and the resource of a call.
#[derive(Debug)]
pub(crate) struct CallEntities {
    principal: EntityUid,
    resource: EntityUid,
    /// The reason, if Cedar rejects the entities. Each evaluation then fails.
    all: Result<Entities, String>,
}

/// The statements that are satisfied by a call, by the numbers of their policies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// Satisfied permits, unless a forbid is satisfied.
    pub(crate) permits: HashSet<usize>,
    /// Satisfied forbids.
    pub(crate) forbids: HashSet<usize>,
    /// Statements without a result, with the reason.
    pub(crate) errors: BTreeMap<usize, String>,
}

/// The variable parts of a call.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) action: Action,
    pub(crate) context: &'a CallContext<'a>,
    pub(crate) arguments: Option<(&'a ArgumentType, &'a ArgumentValues)>,
}

/// The arguments that conditions read.
pub(crate) type ArgumentValues = Map<String, Value>;

impl StatementSet {
    /// Collects statements with the numbers of their policies. `None` if there are none.
    pub(crate) fn new<'a>(
        statements: impl IntoIterator<Item = (usize, &'a Statement)>,
    ) -> Option<Self> {
        let mut reads = Reads::default();
        let policies: Vec<Policy> = statements
            .into_iter()
            .enumerate()
            .map(|(serial, (number, statement))| {
                reads.merge(&statement.reads);
                statement.policy.new_id(PolicyId::new(format!("{number}/{serial}")))
            })
            .collect();
        if policies.is_empty() {
            return None;
        }
        let set = PolicySet::from_policies(policies).map_err(|error| error.to_string());
        Some(Self { set, reads })
    }

    pub(crate) fn reads_context(&self) -> bool {
        self.reads.has_context()
    }

    pub(crate) fn reads_arguments(&self) -> bool {
        self.reads.arguments().next().is_some()
    }

    /// Evaluates the statements that read no context.
    pub(crate) fn evaluate_static(
        &self,
        entities: &CallEntities,
        action: Action,
    ) -> Result<Evaluation, String> {
        self.evaluate_in(entities, action, Context::empty())
    }

    /// Evaluates the statements for a call.
    pub(crate) fn evaluate(
        &self,
        entities: &CallEntities,
        request: Request<'_>,
    ) -> Result<Evaluation, String> {
        let context = self.context(request)?;
        self.evaluate_in(entities, request.action, context)
    }

    fn evaluate_in(
        &self,
        entities: &CallEntities,
        action: Action,
        context: Context,
    ) -> Result<Evaluation, String> {
        let (principal, resource) = (entities.principal.clone(), entities.resource.clone());
        let action = uid("Action", action.as_str());
        let request = cedar_policy::Request::new(principal, action, resource, context, None);
        let request = request.map_err(|error| error.to_string())?;
        let set = self.set.as_ref().map_err(String::clone)?;
        let all = entities.all.as_ref().map_err(String::clone)?;
        let response = Authorizer::new().is_authorized(&request, set, all);
        let satisfied = response.diagnostics().reason().map(number_of).collect();
        let errors = response.diagnostics().errors().map(|error| {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            (number_of(error.policy_id()), error.inner().to_string())
        });
        let errors = errors.collect();
        Ok(match response.decision() {
            Decision::Allow => Evaluation { permits: satisfied, errors, ..Evaluation::default() },
            Decision::Deny => Evaluation { forbids: satisfied, errors, ..Evaluation::default() },
        })
    }

    /// The members of `context` that statements read.
    fn context(&self, request: Request<'_>) -> Result<Context, String> {
        let CallContext { issuer, subject, method, scopes, purpose, hops, time } = *request.context;
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let mut members = Vec::new();
        if request.action.has_arguments()
            && self.reads.reads("arguments")
            && let Some((types, values)) = request.arguments
        {
            members.push(("arguments".to_owned(), self.arguments(types, values)?));
        }
        if self.reads.reads("caller") {
            let scopes = scopes.iter().map(|scope| text(scope));
            let caller = [
                ("issuer".to_owned(), text(issuer)),
                ("subject".to_owned(), text(subject)),
                ("method".to_owned(), text(method)),
                ("scopes".to_owned(), RestrictedExpression::new_set(scopes)),
            ];
            members.push(("caller".to_owned(), record(caller)?));
        }
        if self.reads.reads("purpose") {
            members.push(("purpose".to_owned(), text(purpose.as_str())));
        }
        if self.reads.reads("hops") {
            members.push(("hops".to_owned(), RestrictedExpression::new_long(hops.into())));
        }
        if self.reads.reads("time") {
            members
                .push(("time".to_owned(), RestrictedExpression::new_datetime(format_time(time))));
        }
        Context::from_pairs(members).map_err(|error| error.to_string())
    }

    fn arguments(
        &self,
        types: &ArgumentType,
        values: &ArgumentValues,
    ) -> Result<RestrictedExpression, String> {
        let ArgumentType::Record(members) = types else {
            return Err("the arguments have no readable schema".to_owned());
        };
        let reads: Vec<_> = self.reads.arguments().collect();
        members_of(members, values, "", &reads)
    }
}

fn number_of(id: &PolicyId) -> usize {
    let id: &str = id.as_ref();
    let number = id.split_once('/').and_then(|(number, _)| number.parse().ok());
    number.expect("`StatementSet::new` creates all ids")
}

impl CallEntities {
    /// Creates the entities of a caller and a resource.
    pub(crate) fn new(caller: &Caller, resource: &Resource) -> Self {
        let (principal, agent) = agent_entity(caller);
        let (uid, resource) = resource_entity(resource);
        let all = agent.and_then(|agent| {
            Entities::from_entities([agent, resource?], None).map_err(|error| error.to_string())
        });
        Self { principal, resource: uid, all }
    }
}

/// The id of callers that are no registered agents.
pub(super) const UNKNOWN: &str = "(unknown)";

fn agent_entity(caller: &Caller) -> (EntityUid, Result<Entity, String>) {
    let (known, name, version, team, tags) = match caller {
        Caller::Agent(agent) => {
            (true, &*agent.name, &*agent.version, &*agent.team, &agent.tags[..])
        }
        Caller::Unregistered | Caller::Unknown => (false, "", "", "", &[][..]),
    };
    let id = uid("Agent", if known { name } else { UNKNOWN });
    let mut parents: HashSet<_> = tags.iter().map(|tag| uid("Tag", tag)).collect();
    if known {
        parents.insert(uid("Team", team));
        parents.extend(name.split_once('/').map(|(namespace, _)| uid("Namespace", namespace)));
    }
    let attributes = [
        ("known", RestrictedExpression::new_bool(known)),
        ("name", string(name)),
        ("version", string(version)),
        ("team", string(team)),
        ("tags", strings(tags)),
    ];
    entity(id, attributes, parents)
}

fn resource_entity(resource: &Resource) -> (EntityUid, Result<Entity, String>) {
    let kind = resource.kind.as_str();
    let id = uid(kind, &resource.name);
    let mut parents: HashSet<_> = resource.tags.iter().map(|tag| uid("Tag", tag)).collect();
    let behind = if kind == "Skill" { &resource.skills } else { &resource.tools };
    parents
        .extend(behind.iter().filter(|name| **name != resource.name).map(|name| uid(kind, name)));
    parents.extend(resource.servers.iter().map(|server| uid("Server", server)));
    let agents = resource.skills.iter().filter_map(|skill| skill.rsplit_once('/'));
    let agents = agents.map(|(agent, _)| agent);
    let owners = resource.servers.iter().map(String::as_str).chain(agents);
    let namespaces = owners.filter_map(|name| name.split_once('/'));
    parents.extend(namespaces.map(|(namespace, _)| uid("Namespace", namespace)));
    let attributes = [
        ("name", string(&resource.name)),
        ("version", string(&resource.version)),
        ("destructive", RestrictedExpression::new_bool(resource.is_destructive)),
        ("readOnly", RestrictedExpression::new_bool(resource.is_read_only)),
        ("tags", strings(&resource.tags)),
    ];
    entity(id, attributes, parents)
}

fn entity<const N: usize>(
    id: EntityUid,
    attributes: [(&str, RestrictedExpression); N],
    parents: HashSet<EntityUid>,
) -> (EntityUid, Result<Entity, String>) {
    let attributes: HashMap<_, _> =
        attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let entity = Entity::new(id.clone(), attributes, parents).map_err(|error| error.to_string());
    (id, entity)
}

fn uid(kind: &str, id: &str) -> EntityUid {
    let kind: EntityTypeName = kind.parse().expect("the entity types are identifiers");
    EntityUid::from_type_name_and_id(kind, EntityId::new(id))
}

fn string(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

fn strings(texts: &[String]) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.iter().map(|text| string(text)))
}

fn record(
    members: impl IntoIterator<Item = (String, RestrictedExpression)>,
) -> Result<RestrictedExpression, String> {
    RestrictedExpression::new_record(members).map_err(|error| error.to_string())
}

/// Converts an argument of the type of its schema. `reads` are the paths within it that statements
/// read.
fn convert(
    argument: &ArgumentType,
    value: &Value,
    path: &str,
    reads: &[&[String]],
) -> Result<RestrictedExpression, String> {
    let mismatch = |expected: &str| format!("the argument `{path}` is not {expected}");
    match (argument, value) {
        (ArgumentType::Long, Value::Number(number)) => {
            let integer = number.as_i64().or_else(|| whole(number.as_f64()?));
            let integer = integer.ok_or_else(|| mismatch("an integer of 64 bits"))?;
            Ok(RestrictedExpression::new_long(integer))
        }
        (ArgumentType::Decimal, Value::Number(number)) => {
            let text = decimal(number).ok_or_else(|| {
                mismatch("a number with at most 15 digits, of them at most four decimals")
            })?;
            Ok(RestrictedExpression::new_decimal(text))
        }
        (ArgumentType::String, Value::String(text)) => Ok(string(text)),
        (ArgumentType::Bool, Value::Bool(value)) => Ok(RestrictedExpression::new_bool(*value)),
        (ArgumentType::Set(item), Value::Array(values)) => {
            let values = values.iter().map(|value| convert(item, value, path, WHOLE));
            Ok(RestrictedExpression::new_set(values.collect::<Result<Vec<_>, _>>()?))
        }
        (ArgumentType::Record(members), Value::Object(values)) => {
            members_of(members, values, &format!("{path}."), reads)
        }
        (ArgumentType::Long, _) => Err(mismatch("an integer")),
        (ArgumentType::Decimal, _) => Err(mismatch("a number")),
        (ArgumentType::String, _) => Err(mismatch("a string")),
        (ArgumentType::Bool, _) => Err(mismatch("a boolean")),
        (ArgumentType::Set(_), _) => Err(mismatch("an array")),
        (ArgumentType::Record(_), _) => Err(mismatch("an object")),
        (ArgumentType::Unreadable { reason, .. }, _) => {
            Err(format!("conditions cannot read the argument `{path}`: {reason}"))
        }
    }
}

/// The path of a value that is read as a whole.
const WHOLE: &[&[String]] = &[&[]];

/// Converts the members of an object that statements read. A member without a readable type fails:
/// otherwise `has` would be false for an argument that the upstream receives.
fn members_of(
    members: &BTreeMap<String, Attribute>,
    values: &ArgumentValues,
    path: &str,
    reads: &[&[String]],
) -> Result<RestrictedExpression, String> {
    let is_whole = reads.iter().any(|read| read.is_empty());
    let mut converted = Vec::new();
    for (name, value) in values {
        let within: Vec<&[String]> =
            reads.iter().filter(|read| read.first() == Some(name)).map(|read| &read[1..]).collect();
        if within.is_empty() && !is_whole {
            continue;
        }
        let path = format!("{path}{name}");
        let Some(attribute) = members.get(name) else {
            return Err(format!("the input schema does not declare the argument `{path}`"));
        };
        let within = if is_whole { WHOLE } else { &within };
        converted.push((name.clone(), convert(&attribute.value, value, &path, within)?));
    }
    record(converted)
}

/// Maximum number of significant digits of a number.
///
/// `serde_json` (without `arbitrary_precision`) keeps integers of 64 bits. It reads any other number
/// as the nearest double, which is unique for texts of up to 15 digits. A longer text is a mismatch,
/// unless it differs from one of up to 15 digits by less than one part in 2^53: it has the value of
/// that one.
const DIGITS: usize = 15;

/// The integer that equals a float such as `3.0`.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and small")]
fn whole(number: f64) -> Option<i64> {
    // 10 to the power of DIGITS.
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    is_whole.then_some(number as i64)
}

/// Formats a number for Cedar, which needs one to four decimals.
fn decimal(number: &serde_json::Number) -> Option<String> {
    let text = number.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let significant = digits.trim_start_matches('0').len() + decimals.trim_end_matches('0').len();
    // A shortest form such as 5e-7 has an exponent and is rejected.
    let is_exact = is_digits(digits) && is_digits(decimals) && significant <= DIGITS;
    (is_exact && decimals.len() <= 4).then(|| format!("{whole}.{decimals}"))
}

/// Formats a time for Cedar, in UTC with milliseconds.
fn format_time(time: SystemTime) -> String {
    let millis = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    registry_core::timestamp::Timestamp::from_millis(millis).to_string()
}
