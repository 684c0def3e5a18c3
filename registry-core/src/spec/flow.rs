//! Patterns that move data: pipeline, scatter-gather, filter, map-each.
//!
//! Deliberately absent: the saga and the patterns around one call, which have files of their own.

use super::{Binding, Operation, Path, Predicate};

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
    /// Joins arrays.
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
