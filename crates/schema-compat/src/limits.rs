//! Limits on schemas, comparisons and validations.

/// Maximum number of registered schemas that one schema refers to, directly and through others.
pub const SCHEMA_REFERENCES: usize = 1_000;
/// Maximum number of paths from a schema to one location of a value, including paths through
/// references. Nested duplicates under `allOf` would double at each level.
pub const SCHEMA_PATHS: u64 = 10_000;
/// Maximum size of a compiled regular expression in bytes.
pub const PATTERN_BYTES: usize = 1 << 20;
/// Maximum number of regular expressions in one schema.
pub const SCHEMA_PATTERNS: usize = 200;
/// Maximum number of violations reported for one value.
pub const VIOLATIONS: usize = 32;
/// Maximum number of visits of values during validation, about 20 milliseconds.
pub const VALIDATION_STEPS: u64 = 1_000_000;
/// Additional visits allowed for each value in the instance.
pub const VALIDATION_STEPS_EACH: u64 = 100;
/// Maximum number of steps for comparing two schemas; a step takes at most about a microsecond.
pub const COMPARISON_STEPS: usize = 50_000;
/// Maximum number of steps for all comparisons of one commit.
pub const BATCH_COMPARISON_STEPS: usize = 1_000_000;
/// Maximum nesting of a comparison, following references.
pub const COMPARISON_DEPTH: usize = 128;
/// Maximum nesting of a witness, and the depth of counted paths.
pub const DOCUMENT_DEPTH: usize = 64;
/// Maximum size of a version in an `$id` in bytes.
pub const VERSION_BYTES: usize = 255;
