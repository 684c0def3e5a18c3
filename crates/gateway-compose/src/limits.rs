//! Limits of one run.

/// Maximum tool calls of one run, including those of nested compositions.
pub(crate) const MAX_CALLS: u32 = 10_000;
/// Maximum items of an array in `mapEach`.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// Default number of concurrent items in `mapEach`.
pub(crate) const DEFAULT_CONCURRENCY: usize = 16;
/// Maximum number of concurrent items, also if the spec sets more.
pub(crate) const MAX_CONCURRENCY: usize = 64;
