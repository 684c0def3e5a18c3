//! The arguments of a call as the server receives them. The code of gateways adds the defaults.

use std::collections::BTreeMap;

use registry_core::{
    Catalog,
    entity::Tool,
    tool_schema::{
        self,
        defaults::{DefaultError, Defaults},
    },
};
use schema_compat::schema_compile::{Violation, compile};
use serde_json::{Map, Value};

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct FinalArguments {
    /// The arguments of the caller, with the defaults of the tool.
    pub(super) members: Map<String, Value>,
    /// Hidden arguments, and violations of the input schema.
    pub(super) violations: Vec<Violation>,
    /// Whether gateways reject the call in every configuration, before they evaluate policies.
    pub(super) is_rejected: bool,
}

impl FinalArguments {
    /// Checks the arguments of a caller, and adds the defaults of the tool. `must_conform`: a
    /// condition reads arguments. Fails if a default needs another variable.
    pub(super) fn new(
        catalog: &Catalog,
        tool: &Tool,
        sent: &Map<String, Value>,
        variables: &BTreeMap<String, String>,
        must_conform: bool,
    ) -> Result<Self, String> {
        let hidden = tool_schema::hidden(tool);
        let hidden_argument = |pointer: String| {
            let message = "the argument is hidden, so that callers cannot send it".to_owned();
            Violation { pointer, message }
        };
        let found = hidden.iter().filter(|one| one.find(sent).is_some() || one.is_obstructed(sent));
        let mut violations: Vec<_> = found.map(|one| hidden_argument(one.pointer())).collect();
        let mut members = sent.clone();
        if violations.is_empty()
            && let Some(defaults) = tool.source().and_then(|source| source.defaults.as_ref())
        {
            match (Defaults { hidden: &hidden, variables }).fill(defaults, &mut members) {
                Ok(()) => {}
                Err(DefaultError::HiddenField { pointer }) => {
                    violations.push(hidden_argument(pointer))
                }
                Err(missing @ DefaultError::MissingVariable { .. }) => {
                    return Err(format!("{missing}; set it with --variable NAME=VALUE"));
                }
            }
        }
        let is_hidden = !violations.is_empty();
        violations.extend(schema_violations(catalog, tool, sent));
        let is_rejected = is_hidden || must_conform && !violations.is_empty();
        Ok(Self { members, violations, is_rejected })
    }
}

/// The violations of the schema that callers see. A tool without a registered schema has none.
fn schema_violations(catalog: &Catalog, tool: &Tool, sent: &Map<String, Value>) -> Vec<Violation> {
    let unusable = |reason: String| {
        let message = format!("the input schema cannot be used: {reason}");
        vec![Violation { pointer: String::new(), message }]
    };
    let schema =
        match tool_schema::input(tool, &|key| catalog.find(key)?.document.entity().as_schema()) {
            None => return Vec::new(),
            Some(Ok(schema)) => schema,
            Some(Err(problem)) => return unusable(problem.to_string()),
        };
    match compile(&schema, &|_| None) {
        Ok(validator) => validator.validate(&Value::Object(sent.clone())).err().unwrap_or_default(),
        Err(problems) => {
            unusable(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
    }
}
