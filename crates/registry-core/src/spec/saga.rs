//! The saga: sequential steps with compensations.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Binding, Operation, Path,
    read::{Reader, TIMEOUT},
    steps::StepIds,
};

/// Steps whose effects are compensated in reverse order if a later one fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Saga {
    /// JSON pointer inside of the spec, which identifies the saga within its tool.
    pub pointer: String,
    /// The steps; at least one.
    pub steps: Vec<SagaStep>,
    /// The part of the input that identifies an instance.
    pub saga_id_path: Option<Path>,
    /// The timeout in milliseconds, after which the saga is compensated.
    pub timeout_ms: Option<u64>,
    /// The result of a completed saga; absent means all results by step id.
    pub output: Option<Binding>,
}

/// One step of a saga.
#[derive(Debug, Clone, PartialEq)]
pub struct SagaStep {
    /// The id, unique within the saga.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The operation of the step.
    pub action: Operation,
    /// The compensation.
    pub compensate: Option<Operation>,
    /// The input of the action; absent means the result of the previous step.
    pub input: Option<Binding>,
    /// The input of the compensation; absent means the input of the action.
    pub compensate_input: Option<Binding>,
    /// Whether to compensate if the outcome of the action is unknown.
    pub compensate_on_unknown: bool,
}

impl Saga {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let ids = StepIds::read(reader, fields.get("steps"), fields.at("steps"));
        let mut position = 0;
        let steps = reader.some(&fields, "steps", |value, at| {
            position += 1;
            SagaStep::read(reader, value, at, (&ids, position - 1))
        });
        let saga_id_path =
            fields.get("sagaIdPath").and_then(|value| reader.path(value, fields.at("sagaIdPath")));
        let timeout_ms = reader.number(&fields, "timeoutMs", TIMEOUT);
        let output = fields.get("output").and_then(|value| {
            Binding::read(reader, value, fields.at("output"), ids.visible_at_end())
        });
        fields.finish();
        Some(Self { pointer: at.to_string(), steps, saga_id_path, timeout_ms, output })
    }
}

impl SagaStep {
    fn read(
        reader: &Reader,
        value: &Value,
        at: Location<'_>,
        (ids, position): (&StepIds, usize),
    ) -> Option<Self> {
        reader.step(at);
        let fields = reader.problems.object(value, at)?;
        let (id, name) = (fields.required_string("id"), fields.required_string("name"));
        let action = reader.operation(&fields, "action");
        let compensate = reader.optional_operation(&fields, "compensate");
        let binding =
            |name, visible| Binding::read(reader, fields.get(name)?, fields.at(name), visible);
        let input = binding("input", ids.visible_before(position));
        let compensate_input = binding("compensateInput", ids.visible_to_compensation());
        let compensate_on_unknown = fields.optional_bool("compensateOnUnknown").unwrap_or_default();
        for needless in ["compensateInput", "compensateOnUnknown"] {
            if fields.get(needless).is_some() && fields.get("compensate").is_none() {
                let message = format!("`{needless}` without `compensate`");
                reader.problems.invalid(fields.at(needless), message, "add `compensate`");
            }
        }
        fields.finish();
        Some(Self {
            id: id?,
            name: name?,
            action: action?,
            compensate,
            input,
            compensate_input,
            compensate_on_unknown,
        })
    }
}
