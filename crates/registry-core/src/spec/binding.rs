//! Bindings: sources of a step's input.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{path::Path, read::Reader};

/// A source of data for a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Binding {
    /// A part of the composition's input: `{ input: { path } }` or `{ path }`.
    Input(Path),
    /// A part of an earlier step's result: `{ step: { stepId, path } }` or
    /// `{ reference: { step, path } }`.
    Step {
        /// The step's id.
        id: String,
        /// The path into its result.
        path: Path,
    },
    /// A literal value.
    Constant(Value),
    /// An object whose members are bindings.
    Construct(Vec<(String, Binding)>),
    /// A part of the error that a saga compensates: `{ error: { path } }`.
    Error(Path),
}

/// The sources that a binding may refer to.
#[derive(Clone, Copy)]
pub(super) struct Visible<'a> {
    /// Steps whose results are available.
    pub(super) earlier: &'a [String],
    /// Steps of the same pattern whose results are not available yet.
    pub(super) later: &'a [String],
    /// The allowed kinds of bindings.
    pub(super) kinds: &'a [&'static str],
}

/// The kinds of bindings of a step.
pub(super) const KINDS: &[&str] = &["input", "path", "step", "reference", "constant", "construct"];
/// The kinds of bindings of a compensation.
pub(super) const COMPENSATION_KINDS: &[&str] =
    &["input", "path", "step", "reference", "constant", "construct", "error"];

impl Binding {
    pub(super) fn read(
        reader: &Reader,
        value: &Value,
        at: Location<'_>,
        visible: Visible<'_>,
    ) -> Option<Self> {
        let (name, body) = reader.variant(value, at, "binding", visible.kinds)?;
        let at = at.member(name);
        match name {
            "path" => reader.path(body, at).map(Self::Input),
            "input" => inner_path(reader, body, at).map(Self::Input),
            "error" => inner_path(reader, body, at).map(Self::Error),
            "step" => Self::read_step(reader, body, (at, "stepId"), visible),
            "reference" => Self::read_step(reader, body, (at, "step"), visible),
            "constant" => Some(Self::Constant(body.clone())),
            _ => Self::read_construct(reader, body, at, visible),
        }
    }

    fn read_step(
        reader: &Reader,
        value: &Value,
        (at, id_name): (Location<'_>, &'static str),
        visible: Visible<'_>,
    ) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let id = fields.required_string(id_name);
        let path = reader.required_path(&fields, "path");
        if let Some(id) = &id
            && !visible.earlier.contains(id)
        {
            let (message, help) = if visible.later.contains(id) {
                (format!("the step `{id}` has no result yet"), "bind to an earlier step")
            } else {
                (format!("there is no step `{id}`"), "bind to an earlier step of this pattern")
            };
            reader.problems.invalid(fields.at(id_name), message, help);
        }
        fields.finish();
        Some(Self::Step { id: id?, path: path? })
    }

    fn read_construct(
        reader: &Reader,
        value: &Value,
        at: Location<'_>,
        visible: Visible<'_>,
    ) -> Option<Self> {
        let construct = reader.problems.object(value, at)?;
        let fields = construct.require("fields");
        let at = construct.at("fields");
        let bindings = fields.map(|fields| match fields {
            Value::Object(map) => map
                .iter()
                .filter(|(name, _)| *name != "$comment")
                .filter_map(|(name, value)| {
                    let binding = Self::read(reader, value, at.member(name), visible)?;
                    Some((name.clone(), binding))
                })
                .collect(),
            other => {
                reader.problems.wrong_type(other, at, "an object of bindings");
                Vec::new()
            }
        });
        construct.finish();
        bindings.map(Self::Construct)
    }
}

/// `{ path }`.
fn inner_path(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Path> {
    let fields = reader.problems.object(value, at)?;
    let path = reader.required_path(&fields, "path");
    fields.finish();
    path
}
