//! Limits on documents, commits and queries. The crates for schemas and for search define their
//! own.

use std::time::Duration;

/// Maximum size of a canonical document in bytes.
pub const DOCUMENT_BYTES: usize = 256 * 1024;
/// Maximum nesting of objects and arrays in a document.
pub const DOCUMENT_DEPTH: usize = 64;
/// Maximum nesting of parsed JSON text, which is the limit of `serde_json`.
pub const JSON_DEPTH: usize = 127;
/// Maximum number of changes in a commit.
pub const BATCH_CHANGES: usize = 5_000;
/// Maximum total size of the canonical documents of a commit in bytes.
pub const BATCH_BYTES: usize = 48 * 1024 * 1024;
/// Maximum length of a list in a document (`provides`, `depends`, `skills` …).
pub const LIST_ITEMS: usize = 1_000;
/// Maximum size of a free text in a document (descriptions, titles) in bytes.
pub const TEXT_BYTES: usize = 8 * 1024;
/// Maximum size of the Cedar text of a policy in bytes.
pub const CEDAR_BYTES: usize = 64 * 1024;
/// Maximum number of calls in the window or burst of a rate.
pub const RATE_LIMIT: u32 = 1_000_000_000;
/// Maximum limit on the calls or hops of a trace.
pub const TRACE_LIMIT: u32 = 1_000_000;
/// Maximum number of budgets in a policy.
pub const BUDGETS: usize = 100;
/// Maximum number of alert thresholds of a budget.
pub const BUDGET_ALERTS: usize = 16;
/// Minimum of `maxStaleness` of a policy. A connected gateway confirms its catalog every 10 s by
/// default, with 10 % jitter, so this tolerates one lost confirmation.
pub const MIN_STALENESS: Duration = Duration::from_secs(25);
/// Maximum size of a version in bytes, equal to the limit of the MCP registry API.
pub const VERSION_BYTES: usize = 255;
/// Maximum size of a commit message in bytes.
pub const MESSAGE_BYTES: usize = 4 * 1024;
/// Maximum size of an author in bytes.
pub const AUTHOR_BYTES: usize = 256;
/// Retention of request ids for deduplication in milliseconds: 7 days.
pub const REQUEST_ID_MILLIS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Maximum size of a registry id in bytes.
pub const REGISTRY_ID_BYTES: usize = 128;
/// Maximum size of a request id in bytes.
pub const REQUEST_ID_BYTES: usize = 128;
/// Maximum nesting of patterns in a composition.
pub const SPEC_DEPTH: usize = 16;
/// Maximum number of steps and targets in a composition across all levels.
pub const SPEC_STEPS: usize = 256;
/// Maximum call depth of compositions that call each other.
pub const COMPOSITION_DEPTH: usize = 16;
/// Largest integer that every JSON parser represents exactly (RFC 8785 section 3.2.2.3).
pub const SAFE_INTEGER: i64 = 1 << 53;
/// Maximum number of problems reported for a document or file.
pub const PROBLEMS: usize = 1_000;
/// Maximum number of findings about unused schemas of a batch. The first one counts the schemas without a finding.
pub const UNUSED_SCHEMAS: usize = 100;
/// Maximum number of listed repairs of an import per category (applied, to review). Further ones
/// are only counted.
pub const REPAIRS: usize = 20_000;
/// Maximum number of regular expressions in the schemas of a commit. Each costs up to a
/// millisecond.
pub const BATCH_PATTERNS: usize = 10_000;
/// Maximum number of reported paths to active dependents.
pub const PATHS: usize = 100;
/// Maximum number of settings in a commit.
pub const BATCH_SETTINGS: usize = 1_000;
/// Maximum size of a signed checkpoint in bytes.
pub const CHECKPOINT_BYTES: usize = 4 * 1024;
/// Maximum size of a JSONPath in bytes.
pub const PATH_BYTES: usize = 1024;
/// Maximum nesting of brackets and parentheses in a JSONPath.
pub const PATH_DEPTH: usize = 16;
/// Maximum nesting of filters (`?`) in a JSONPath. The parser reads each inner filter twice, so its
/// time is exponential in the depth.
pub const PATH_FILTER_DEPTH: usize = 4;
/// Maximum number of attempts of a `retry` or `deadLetter`.
pub const SPEC_ATTEMPTS: u64 = 100;
/// Maximum timeout or delay in a composition in milliseconds: one day.
pub const SPEC_MILLIS: u64 = 24 * 60 * 60 * 1000;
/// Maximum time to live or window in a composition in seconds: 30 days.
pub const SPEC_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Maximum concurrency, item count or failure count in a composition.
pub const SPEC_COUNT: u64 = 100_000;
/// Maximum number of value visits when evaluating the paths of one projection, binding or
/// aggregation, equal to about a tenth of a second.
pub const EVAL_LOOKS: u64 = 4_000_000;
/// Maximum number of values (objects, arrays, strings, numbers …) in an evaluation result.
pub const EVAL_VALUES: u64 = 1_000_000;
/// Maximum nesting of an evaluation result.
pub const EVAL_DEPTH: usize = 100;
/// Maximum length of a description or title in a `server.json` in characters.
pub const MCP_TEXT_CHARACTERS: usize = 100;
/// Maximum length of an icon's URL in a `server.json` in characters.
pub const MCP_ICON_CHARACTERS: usize = 255;
/// Maximum size of publisher data under `_meta` of a `server.json` in bytes of JSON.
pub const MCP_PUBLISHER_BYTES: usize = 4 * 1024;
/// Maximum number of start entities of a graph query.
pub const GRAPH_ROOTS: usize = 1_000;
/// Maximum number of entities in the result of a graph query.
pub const GRAPH_NODES: usize = 10_000;
/// Maximum number of edges in the result of a graph query.
pub const GRAPH_EDGES: usize = 50_000;
/// Maximum number of paths in the explanation of a dependency.
pub const GRAPH_PATHS: usize = 100;
/// Maximum number of dependents validated by an impact analysis, nearest first.
pub const IMPACT_DOCUMENTS: usize = 1_000;
/// Maximum number of requirements in one resolution request.
pub const REQUIREMENTS: usize = 1_000;
/// Maximum size of a version constraint in bytes.
pub const CONSTRAINT_BYTES: usize = 256;
/// Maximum number of versions listed in a failed resolution.
pub const CANDIDATES: usize = 20;
/// Maximum number of steps for checking all compositions of a commit: comparisons, and calls of
/// trial runs.
pub const FLOW_STEPS: usize = 4_000_000;
/// Guaranteed number of steps for checking one composition, independent of the others in its
/// commit.
pub const FLOW_STEPS_EACH: usize = 5_000;
/// Maximum number of differences and undecided checks reported for one comparison.
pub const COMPARISON_FINDINGS: usize = 100;
/// Maximum size of a counterexample in bytes of JSON.
pub const COMPARISON_INSTANCE_BYTES: usize = 16 * 1024;
/// Maximum number of roots of a scope.
pub const SCOPE_ROOTS: usize = 1_000;
/// Maximum number of item comparisons for aligning all arrays of two documents.
pub const ALIGNED_PAIRS: usize = 1 << 20;
/// Maximum number of item comparisons for all versions read by a blame.
pub const BLAMED_PAIRS: usize = 1 << 24;
/// Maximum size of the earlier versions read by a blame in bytes.
pub const BLAME_BYTES: usize = 64 * 1024 * 1024;
