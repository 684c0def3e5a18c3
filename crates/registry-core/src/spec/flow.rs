//! Patterns for data flow: pipeline, scatter-gather, filter and map-each.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Binding, Operation, Path, Predicate,
    binding::{KINDS, Visible},
    read::{COUNT, Reader, TIMEOUT},
    steps::StepIds,
};
use crate::limits;

/// Sequential steps. The first failure ends the pipeline; its result is that of the last step.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// The steps; at least one.
    pub steps: Vec<PipelineStep>,
}

/// One step of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineStep {
    /// The id, unique within the pipeline.
    pub id: String,
    /// The operation of the step.
    pub operation: Operation,
    /// The input; absent means the result of the previous step.
    pub input: Option<Binding>,
}

/// Parallel calls of several targets.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterGather {
    /// The targets; at least one.
    pub targets: Vec<ScatterTarget>,
    /// The operations on the results, in order.
    pub aggregation: Vec<AggregationOp>,
    /// The timeout in milliseconds, after which the results received so far are aggregated.
    pub timeout_ms: Option<u64>,
    /// Whether the first failure cancels the other targets.
    pub fail_fast: bool,
}

/// One target of a scatter-gather.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterTarget {
    /// The operation.
    pub operation: Operation,
    /// The input; absent means the input of the pattern.
    pub input: Option<Binding>,
}

/// One operation of an aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AggregationOp {
    /// Removes one level of array nesting.
    Flatten,
    /// Keeps the results as separate items.
    Concat,
    /// Sorts by a field, stably: numbers before strings, missing values last.
    Sort {
        /// The sort field.
        field: Path,
        /// The sort direction.
        order: Order,
    },
    /// Keeps the first item of each key.
    Dedupe {
        /// The key field.
        field: Path,
    },
    /// Keeps the first items.
    Limit {
        /// The number of items.
        count: u64,
    },
    /// Merges objects; later members override earlier ones.
    Merge,
}

/// A sort direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest first: `asc`.
    Ascending,
    /// Largest first: `desc`.
    Descending,
}

/// Selects the matching items of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The condition on an item.
    pub predicate: Predicate,
}

/// Applies one operation to each item of an array and preserves their order. The first failure
/// cancels the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEach {
    /// The operation per item.
    pub inner: Operation,
    /// The maximum number of parallel operations.
    pub max_concurrency: Option<u64>,
}

impl Pipeline {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let ids = StepIds::read(reader, fields.get("steps"), fields.at("steps"));
        let mut position = 0;
        let steps = reader.some(&fields, "steps", |value, at| {
            position += 1;
            PipelineStep::read(reader, value, at, ids.visible_before(position - 1))
        });
        fields.finish();
        Some(Self { steps })
    }
}

impl PipelineStep {
    fn read(
        reader: &Reader,
        value: &Value,
        at: Location<'_>,
        visible: Visible<'_>,
    ) -> Option<Self> {
        reader.step(at);
        let fields = reader.problems.object(value, at)?;
        let id = fields.required_string("id");
        let operation = reader.operation(&fields, "operation");
        let input = fields
            .get("input")
            .and_then(|value| Binding::read(reader, value, fields.at("input"), visible));
        fields.finish();
        Some(Self { id: id?, operation: operation?, input })
    }
}

impl ScatterGather {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let targets =
            reader.some(&fields, "targets", |value, at| ScatterTarget::read(reader, value, at));
        let aggregation = fields
            .require("aggregation")
            .and_then(|value| read_aggregation(reader, value, fields.at("aggregation")));
        let timeout_ms = reader.number(&fields, "timeoutMs", TIMEOUT);
        let fail_fast = fields.optional_bool("failFast").unwrap_or_default();
        fields.finish();
        Some(Self { targets, aggregation: aggregation?, timeout_ms, fail_fast })
    }
}

impl ScatterTarget {
    /// A target is an operation with an optional sibling `input`.
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        reader.step(at);
        let fields = reader.problems.object(value, at)?;
        let visible = Visible { earlier: &[], later: &[], kinds: KINDS };
        let input = fields
            .get("input")
            .and_then(|value| Binding::read(reader, value, fields.at("input"), visible));
        let mut given = ["tool", "agent", "pattern"]
            .into_iter()
            .filter_map(|name| fields.get(name).map(|body| (name, body)));
        let operation = if let (Some((name, body)), None) = (given.next(), given.next()) {
            Operation::read_body(reader, name, body, fields.at(name))
        } else {
            let message = "a target must be one of `tool`, `agent` and `pattern`";
            reader.problems.invalid(at, message, "write exactly one of them");
            None
        };
        fields.finish();
        Some(Self { operation: operation?, input })
    }
}

fn read_aggregation(
    reader: &Reader,
    value: &Value,
    at: Location<'_>,
) -> Option<Vec<AggregationOp>> {
    let fields = reader.problems.object(value, at)?;
    fields.require("ops");
    let ops = fields.list("ops", |value, at| AggregationOp::read(reader, value, at));
    fields.finish();
    Some(ops)
}

impl AggregationOp {
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let names = &["flatten", "concat", "sort", "dedupe", "limit", "merge"];
        let (name, body) = reader.variant(value, at, "aggregation op", names)?;
        let at = at.member(name);
        let switch = match name {
            "flatten" => Self::Flatten,
            "concat" => Self::Concat,
            "merge" => Self::Merge,
            _ => return Self::read_fields(reader, name, body, at),
        };
        if body != &Value::Bool(true) {
            reader.problems.wrong_type(body, at, "true");
        }
        Some(switch)
    }

    fn read_fields(reader: &Reader, name: &str, body: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(body, at)?;
        let op = match name {
            "limit" => reader
                .required_number(&fields, "count", 0..=limits::SPEC_COUNT)
                .map(|count| Self::Limit { count }),
            "dedupe" => reader.required_path(&fields, "field").map(|field| Self::Dedupe { field }),
            _ => {
                let field = reader.required_path(&fields, "field");
                let order = fields
                    .require("order")
                    .and_then(|value| Order::read(reader, value, fields.at("order")));
                field.zip(order).map(|(field, order)| Self::Sort { field, order })
            }
        };
        fields.finish();
        op
    }
}

impl Order {
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        match value.as_str() {
            Some("asc") => Some(Self::Ascending),
            Some("desc") => Some(Self::Descending),
            _ => {
                reader.problems.wrong_type(value, at, "\"asc\" or \"desc\"");
                None
            }
        }
    }
}

impl Filter {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        fields.require("predicate");
        let predicate = reader.optional_predicate(&fields, "predicate");
        fields.finish();
        Some(Self { predicate: predicate? })
    }
}

impl MapEach {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let max_concurrency = reader.number(&fields, "maxConcurrency", COUNT);
        fields.finish();
        Some(Self { inner: inner?, max_concurrency })
    }
}
