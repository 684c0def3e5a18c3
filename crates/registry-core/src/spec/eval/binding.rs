//! What a binding delivers: a part of the input, of a step's result, of an error, or a constant.
//!
//! One selected value is itself, several are an array. What selects nothing gives no field in a
//! `construct`, and is an error where it stands alone.

use std::collections::BTreeMap;

use schema_compat::pointer::At;
use serde_json::{Map, Value};

use super::{Budget, Error, Reason};
use crate::spec::{Binding, Path};

/// What a binding can see.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The composition's input.
    pub input: &'a Value,
    /// The results of steps, by their ids.
    pub steps: &'a BTreeMap<String, Value>,
    /// What is being compensated, in a saga.
    pub error: Option<&'a Value>,
}

impl Binding {
    /// What it delivers; a pointer in an error begins at the binding.
    pub fn resolve(&self, scope: Scope<'_>, budget: &mut Budget) -> Result<Value, Error> {
        self.find(scope, (At::ROOT, 0), budget)?.map_err(|reason| reason.at(At::ROOT))
    }

    /// What it delivers, or why there is nothing.
    fn find(
        &self,
        scope: Scope<'_>,
        (at, depth): (At<'_>, usize),
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
    scope: Scope<'_>,
    (at, depth): (At<'_>, usize),
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

/// The values that each path selects, in the order of the paths. Each path has a list, so that one
/// selected array differs from several selected values.
pub fn keys(paths: &[Path], value: &Value, budget: &mut Budget) -> Result<Vec<Vec<Value>>, Error> {
    let select = |(i, path): (usize, &Path)| {
        path.select_copies(value, budget).map_err(|reason| reason.at(At::ROOT.index(i)))
    };
    paths.iter().enumerate().map(select).collect()
}

/// A copy of what a path selects: one value itself, several as an array; `None` where it is nothing.
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
