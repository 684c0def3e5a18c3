//! Limits on schemas, comparisons and validations.

/// Maximum number of registered schemas that one schema refers to, directly and through others.
pub const SCHEMA_REFERENCES: usize = 1_000;
/// Most ways in which one schema may be applied to one place of a value, references followed: what
/// `allOf` of twice the same doubles with every level.
pub const SCHEMA_PATHS: u64 = 10_000;
/// Largest compiled regular expression of a schema, in bytes.
pub const PATTERN_BYTES: usize = 1 << 20;
/// Most regular expressions in one schema.
pub const SCHEMA_PATTERNS: usize = 200;
/// Most violations that are reported for one value.
pub const VIOLATIONS: usize = 32;
/// Most looks at a value, or at a part of it, that validating it may take: about 20 milliseconds.
pub const VALIDATION_STEPS: u64 = 1_000_000;
/// How many more for each value in it.
pub const VALIDATION_STEPS_EACH: u64 = 100;
/// Most steps that comparing two schemas may take; a step is at most about a microsecond.
pub const COMPARISON_STEPS: usize = 50_000;
/// Most steps that all comparisons of one commit may take together.
pub const BATCH_COMPARISON_STEPS: usize = 1_000_000;
/// Deepest nesting of a comparison, references followed.
pub const COMPARISON_DEPTH: usize = 128;
/// Maximum nesting of a witness, and the depth of counted paths.
pub const DOCUMENT_DEPTH: usize = 64;
/// Longest version in an `$id`, in bytes.
pub const VERSION_BYTES: usize = 255;
