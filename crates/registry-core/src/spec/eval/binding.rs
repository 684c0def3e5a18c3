//! Evaluation of bindings: a part of the input, of a step's result or of an error, or a constant.
//!
//! A single selected value is returned itself, several values as an array. Selecting nothing omits
//! the field in a `construct`, and is an error elsewhere.

use std::collections::BTreeMap;

use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use super::{Budget, Error, Reason};
use crate::spec::{Binding, Path};

/// The values that bindings can refer to.
#[derive(Debug, Clone, Copy)]
pub struct BindingContext<'a> {
    /// The composition's input.
    pub input: &'a Value,
    /// The results of steps by id.
    pub steps: &'a BTreeMap<String, Value>,
    /// The error that a saga compensates.
    pub error: Option<&'a Value>,
}

impl Binding {
    /// Evaluates the binding. JSON pointers of errors are relative to it.
    pub fn resolve(&self, scope: BindingContext<'_>, budget: &mut Budget) -> Result<Value, Error> {
        self.find(scope, (Location::ROOT, 0), budget)?.map_err(|reason| reason.at(Location::ROOT))
    }

    /// Evaluates the binding, or returns the reason why it selects nothing.
    fn find(
        &self,
        scope: BindingContext<'_>,
        (at, depth): (Location<'_>, usize),
        budget: &mut Budget,
    ) -> Result<Result<Value, Reason>, Error> {
        let (path, value, without) = match self {
            Self::Input(path) => (path, Some(scope.input), Reason::Nothing),
            Self::Step { id, path } => (path, scope.steps.get(id), Reason::NoResult),
            Self::Error(path) => (path, scope.error, Reason::NoError),
            Self::Constant(value) => {
                return budget.copy(value, depth).map(Ok).map_err(|reason| reason.at(at));
            }
            Self::Construct(fields) => {
                return construct(fields, scope, (at, depth), budget).map(Ok);
            }
        };
        let Some(value) = value else { return Ok(Err(without)) };
        selected(path, value, depth, budget)
            .map(|found| found.ok_or(Reason::Nothing))
            .map_err(|reason| reason.at(at))
    }
}

fn construct(
    fields: &[(String, Binding)],
    scope: BindingContext<'_>,
    (at, depth): (Location<'_>, usize),
    budget: &mut Budget,
) -> Result<Value, Error> {
    budget.produce(depth, 1).map_err(|reason| reason.at(at))?;
    let (at, mut object) = (at.member("construct"), Map::new());
    let at = at.member("fields");
    for (name, binding) in fields {
        let at = at.member(name);
        if let Ok(value) = binding.find(scope, (at, depth + 1), budget)? {
            budget.text(name.len() + 1).map_err(|reason| reason.at(at))?;
            object.insert(name.clone(), value);
        }
    }
    Ok(Value::Object(object))
}

/// The values that each path selects, in path order. Each path has a list of its own, so that one
/// selected array differs from several selected values.
pub fn keys(paths: &[Path], value: &Value, budget: &mut Budget) -> Result<Vec<Vec<Value>>, Error> {
    let select = |(i, path): (usize, &Path)| {
        path.select_copies(value, budget).map_err(|reason| reason.at(Location::ROOT.index(i)))
    };
    paths.iter().enumerate().map(select).collect()
}

/// Copies the selection of a path: a single value itself, several values as an array, `None` if it
/// selects nothing.
pub(super) fn selected(
    path: &Path,
    value: &Value,
    depth: usize,
    budget: &mut Budget,
) -> Result<Option<Value>, Reason> {
    match path.select(value, budget)?.as_slice() {
        [] => Ok(None),
        [one] => budget.copy(one, depth).map(Some),
        several => {
            budget.produce(depth, 1)?;
            let items = several.iter().map(|item| budget.copy(item, depth + 1));
            items.collect::<Result<_, _>>().map(Value::Array).map(Some)
        }
    }
}
