//! Compositions: the typed grammar of a tool's `spec` and `outputTransform`.
//!
//! Parsing is strict: unknown fields, unknown or later steps, invalid paths and values out of
//! bounds are reported as `composition-invalid`, all of them and each at its pointer. `$comment` is
//! allowed anywhere. [`eval`] has the pure parts of execution: projections, bindings, predicates
//! and aggregation.

mod backoff;
mod binding;
mod delivery;
pub mod eval;
mod flow;
mod mapping;
mod memory;
mod operation;
mod path;
mod predicate;
mod read;
mod resilience;
mod saga;
mod steps;
pub mod types;

use std::sync::Arc;

use schema_compat::pointer::Location;
use serde_json::Value;

pub use backoff::Backoff;
pub use binding::Binding;
pub use delivery::{ClaimCheck, DeadLetter};
pub use flow::{
    AggregationOp, Filter, MapEach, Order, Pipeline, PipelineStep, ScatterGather, ScatterTarget,
};
pub use mapping::{FieldPath, FieldSource, Mapping, Mappings};
pub use memory::{Cache, Idempotent, OnDuplicate};
pub use operation::{Operation, Target, Use};
pub use path::{InvalidPath, Path};
pub use predicate::{Predicate, PredicateOp};
pub use resilience::{CircuitBreaker, Retry, Timeout};
pub use saga::{Saga, SagaStep};

pub use read::plain as plain_literal;

use crate::diagnostic::Diagnostic;
use read::Reader;

/// One pattern of a composition.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// Sequential steps.
    Pipeline(Pipeline),
    /// Parallel targets whose results are aggregated.
    ScatterGather(ScatterGather),
    /// Selection of the matching items of an array.
    Filter(Filter),
    /// Construction of an object from parts of the input.
    SchemaMap(Mappings),
    /// One operation per item of an array.
    MapEach(MapEach),
    /// Steps with compensation. Shared, because a saga outlives the request that started it.
    Saga(Arc<Saga>),
    /// Repetition after a failure.
    Retry(Retry),
    /// A time limit.
    Timeout(Timeout),
    /// Caching of successful results. Shared, because an entry may be refreshed in the background.
    Cache(Arc<Cache>),
    /// Deduplication of calls with the same key.
    Idempotent(Idempotent),
    /// Suspension of calls to a failing target.
    CircuitBreaker(CircuitBreaker),
    /// Delivery of failures to a tool.
    DeadLetter(DeadLetter),
    /// External storage of large payloads.
    ClaimCheck(ClaimCheck),
}

/// A parsed composition: its pattern and the called targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Composition {
    /// The outermost pattern.
    pub spec: Spec,
    /// Every called tool and agent with its location in the spec.
    pub uses: Vec<Use>,
}

impl Composition {
    /// Parses a tool's `spec`. Reports every problem at its pointer inside of the spec.
    pub fn parse(spec: &Value) -> Result<Self, Vec<Diagnostic>> {
        let reader = Reader::default();
        let spec = Spec::read(&reader, spec, Location::ROOT);
        let (uses, problems) = reader.into_parts();
        match spec {
            Some(spec) if problems.is_empty() => Ok(Self { spec, uses }),
            _ => Err(problems),
        }
    }

    /// The tools and agents called in the valid parts of a `spec`.
    pub fn collect_uses(spec: &Value) -> Vec<Use> {
        let reader = Reader::default();
        let _ = Spec::read(&reader, spec, Location::ROOT);
        reader.into_parts().0
    }
}

impl Spec {
    /// Parses a tool's `spec`. Reports every problem at its pointer inside of the spec.
    pub fn parse(spec: &Value) -> Result<Self, Vec<Diagnostic>> {
        Composition::parse(spec).map(|composition| composition.spec)
    }
}

impl Mappings {
    /// Parses a tool's `outputTransform`: `{ "mappings": { … } }`.
    pub fn parse(transform: &Value) -> Result<Self, Vec<Diagnostic>> {
        let reader = Reader::default();
        let mappings = Self::read(&reader, transform, Location::ROOT);
        let (_, problems) = reader.into_parts();
        match mappings {
            Some(mappings) if problems.is_empty() => Ok(mappings),
            _ => Err(problems),
        }
    }
}

impl Spec {
    /// The direct operations of the pattern, without nested ones.
    pub fn operations(&self) -> Vec<&Operation> {
        match self {
            Self::Filter(_) | Self::SchemaMap(_) => Vec::new(),
            Self::Pipeline(pipeline) => pipeline.steps.iter().map(|step| &step.operation).collect(),
            Self::ScatterGather(scatter) => {
                scatter.targets.iter().map(|target| &target.operation).collect()
            }
            Self::Saga(saga) => {
                let compensations = saga.steps.iter().filter_map(|step| step.compensate.as_ref());
                saga.steps.iter().map(|step| &step.action).chain(compensations).collect()
            }
            Self::MapEach(each) => vec![&each.inner],
            Self::Retry(retry) => vec![&retry.inner],
            Self::Timeout(timeout) => {
                std::iter::once(&timeout.inner).chain(&timeout.fallback).collect()
            }
            Self::Cache(cache) => vec![&cache.inner],
            Self::Idempotent(idempotent) => vec![&idempotent.inner],
            Self::CircuitBreaker(breaker) => {
                std::iter::once(&breaker.inner).chain(&breaker.fallback).collect()
            }
            Self::DeadLetter(letter) => vec![&letter.inner],
            Self::ClaimCheck(check) => vec![&check.inner],
        }
    }
}

/// The names of the patterns in JSON.
pub const PATTERNS: &[&str] = &[
    "pipeline",
    "scatterGather",
    "filter",
    "schemaMap",
    "mapEach",
    "saga",
    "retry",
    "timeout",
    "cache",
    "idempotent",
    "circuitBreaker",
    "deadLetter",
    "claimCheck",
];

impl Spec {
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let _nested = reader.nested(at)?;
        let (name, body) = reader.variant(value, at, "pattern", PATTERNS)?;
        let at = at.member(name);
        match name {
            "pipeline" => Pipeline::read(reader, body, at).map(Self::Pipeline),
            "scatterGather" => ScatterGather::read(reader, body, at).map(Self::ScatterGather),
            "filter" => Filter::read(reader, body, at).map(Self::Filter),
            "schemaMap" => Mappings::read(reader, body, at).map(Self::SchemaMap),
            "mapEach" => MapEach::read(reader, body, at).map(Self::MapEach),
            "saga" => Saga::read(reader, body, at).map(|saga| Self::Saga(Arc::new(saga))),
            "retry" => Retry::read(reader, body, at).map(Self::Retry),
            "timeout" => Timeout::read(reader, body, at).map(Self::Timeout),
            "cache" => Cache::read(reader, body, at).map(|cache| Self::Cache(Arc::new(cache))),
            "idempotent" => Idempotent::read(reader, body, at).map(Self::Idempotent),
            "circuitBreaker" => CircuitBreaker::read(reader, body, at).map(Self::CircuitBreaker),
            "deadLetter" => DeadLetter::read(reader, body, at).map(Self::DeadLetter),
            _ => ClaimCheck::read(reader, body, at).map(Self::ClaimCheck),
        }
    }
}

#[cfg(test)]
mod tests;
