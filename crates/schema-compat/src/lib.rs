//! Compatibility of JSON Schemas with counterexamples, and validation with bounded cost.
//!
//! [`compatibility::covers`] decides whether one schema accepts every value that another accepts.
//! [`schema_compile::compile`] creates validators that limit the cost of hostile schemas and
//! values. Schemas may refer to named versions of other schemas by `#Name:1.0.0`; the caller
//! resolves the names.

pub mod compatibility;
pub mod json_schema;
pub mod keyword;
pub mod limits;
pub mod name;
pub mod pointer;
pub mod schema_compile;
pub mod suggest;
