//! Patterns that move data: pipeline, scatter-gather, filter, map-each.

use schema_compat::pointer::At;
use serde_json::Value;

use super::{
    Binding, Operation, Path, Predicate,
    binding::{KINDS, Visible},
    read::{COUNT, Reader, TIMEOUT},
    steps::StepIds,
};
use crate::limits;

/// Steps in order; the first failure ends it; the result is the last step's.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// At least one step.
    pub steps: Vec<PipelineStep>,
}

/// One step of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineStep {
    /// Unique within the pipeline.
    pub id: String,
    /// What it does.
    pub operation: Operation,
    /// Its input; without it the previous step's result.
    pub input: Option<Binding>,
}

/// All targets at once.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterGather {
    /// At least one target.
    pub targets: Vec<ScatterTarget>,
    /// What is done with the results, in order.
    pub aggregation: Vec<AggregationOp>,
    /// When what has arrived has to do.
    pub timeout_ms: Option<u64>,
    /// Whether the first failure cancels the rest.
    pub fail_fast: bool,
}

/// One target of a scatter-gather.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterTarget {
    /// What it does.
    pub operation: Operation,
    /// Its input; without it the pattern's.
    pub input: Option<Binding>,
}

/// One step of an aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AggregationOp {
    /// Takes one level of arrays away.
    Flatten,
    /// Leaves the results side by side, one item each.
    Concat,
    /// Orders by a field: numbers before strings, missing ones last, stable.
    Sort {
        /// By what.
        field: Path,
        /// In which direction.
        order: Order,
    },
    /// Keeps the first of equals.
    Dedupe {
        /// By what.
        field: Path,
    },
    /// Keeps the first so many.
    Limit {
        /// How many.
        count: u64,
    },
    /// Joins objects; later ones win.
    Merge,
}

/// A direction of sorting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest first: `asc`.
    Ascending,
    /// Largest first: `desc`.
    Descending,
}

/// Keeps the items of an array that match.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// What an item must fulfil.
    pub predicate: Predicate,
}

/// One operation for each item of an array; order kept, the first failure cancels the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEach {
    /// What is done with an item.
    pub inner: Operation,
    /// How many at once.
    pub max_concurrency: Option<u64>,
}

impl Pipeline {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let ids = StepIds::of(reader, fields.get("steps"), fields.at("steps"));
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
    fn read(reader: &Reader, value: &Value, at: At<'_>, visible: Visible<'_>) -> Option<Self> {
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
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
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
    /// A target is an operation that may have an `input` beside it.
    fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
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
            let message = "a target is one of tool, agent and pattern";
            reader.problems.invalid(at, message, "write exactly one of them");
            None
        };
        fields.finish();
        Some(Self { operation: operation?, input })
    }
}

fn read_aggregation(reader: &Reader, value: &Value, at: At<'_>) -> Option<Vec<AggregationOp>> {
    let fields = reader.problems.object(value, at)?;
    fields.require("ops");
    let ops = fields.list("ops", |value, at| AggregationOp::read(reader, value, at));
    fields.finish();
    Some(ops)
}

impl AggregationOp {
    fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
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

    fn read_fields(reader: &Reader, name: &str, body: &Value, at: At<'_>) -> Option<Self> {
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
    fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
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
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        fields.require("predicate");
        let predicate = reader.optional_predicate(&fields, "predicate");
        fields.finish();
        Some(Self { predicate: predicate? })
    }
}

impl MapEach {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let max_concurrency = reader.number(&fields, "maxConcurrency", COUNT);
        fields.finish();
        Some(Self { inner: inner?, max_concurrency })
    }
}
