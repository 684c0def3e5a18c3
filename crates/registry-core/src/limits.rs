//! Limits on documents, commits and queries. The crates for schemas and for search have their own.

/// Largest canonical document, in bytes.
pub const DOCUMENT_BYTES: usize = 256 * 1024;
/// Deepest nesting of objects and arrays in a document.
pub const DOCUMENT_DEPTH: usize = 64;
/// Deepest nesting of JSON text that is parsed; `serde_json` reads no deeper.
pub const JSON_DEPTH: usize = 127;
/// Most changes in one commit.
pub const BATCH_CHANGES: usize = 5_000;
/// Most bytes of canonical documents in one commit.
pub const BATCH_BYTES: usize = 48 * 1024 * 1024;
/// Most entries in a list of a document (`provides`, `depends`, `skills` …).
pub const LIST_ITEMS: usize = 1_000;
/// Longest free text in a document's own fields (descriptions, titles), in bytes.
pub const TEXT_BYTES: usize = 8 * 1024;
/// Longest version, in bytes; as the API of MCP registries has it.
pub const VERSION_BYTES: usize = 255;
/// Longest commit message, in bytes.
pub const MESSAGE_BYTES: usize = 4 * 1024;
/// Longest author, in bytes.
pub const AUTHOR_BYTES: usize = 256;
/// How long a request id identifies its request, in milliseconds: 7 days.
pub const REQUEST_ID_MILLIS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Longest id of a registry, in bytes.
pub const REGISTRY_ID_BYTES: usize = 128;
/// Longest request id, in bytes.
pub const REQUEST_ID_BYTES: usize = 128;
/// Most nested patterns in a composition.
pub const SPEC_DEPTH: usize = 16;
/// Most steps and targets in a composition, all levels together.
pub const SPEC_STEPS: usize = 256;
/// Most compositions that call one another, one inside of the other.
pub const COMPOSITION_DEPTH: usize = 16;
/// Largest integer that every JSON reader represents exactly (RFC 8785 section 3.2.2.3).
pub const SAFE_INTEGER: i64 = 1 << 53;
/// Most problems that are reported for one document, or for one file; the rest waits until these
/// are mended.
pub const PROBLEMS: usize = 1_000;
/// Most repairs of an import that are listed of each kind (made, to look at); the rest is counted.
pub const REPAIRS: usize = 20_000;
/// Most regular expressions in the schemas of one commit: each costs up to a millisecond.
pub const BATCH_PATTERNS: usize = 10_000;
/// Most paths that are named where something is still needed.
pub const PATHS: usize = 100;
/// Most settings in one commit.
pub const BATCH_SETTINGS: usize = 1_000;
/// Longest signed checkpoint, in bytes.
pub const CHECKPOINT_BYTES: usize = 4 * 1024;
/// Longest JSONPath, in bytes.
pub const PATH_BYTES: usize = 1024;
/// Deepest nesting of brackets and parentheses in a JSONPath.
pub const PATH_DEPTH: usize = 16;
/// Deepest nesting of filters (`?`) in a JSONPath; the parser reads each inner one twice.
pub const PATH_FILTER_DEPTH: usize = 4;
/// Most attempts of a `retry` or a `deadLetter`.
pub const SPEC_ATTEMPTS: u64 = 100;
/// Longest time-out or delay in a composition, in milliseconds: one day.
pub const SPEC_MILLIS: u64 = 24 * 60 * 60 * 1000;
/// Longest time to live or window in a composition, in seconds: 30 days.
pub const SPEC_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Most calls at once, items or failures that a composition may ask for.
pub const SPEC_COUNT: u64 = 100_000;
/// Most looks at values that evaluating the paths of one projection, binding or aggregation may take:
/// about a tenth of a second.
pub const EVAL_LOOKS: u64 = 4_000_000;
/// Most values (objects, arrays, texts, numbers …) that it may produce.
pub const EVAL_VALUES: u64 = 1_000_000;
/// Deepest nesting of what it may produce.
pub const EVAL_DEPTH: usize = 100;
/// Longest description and title of a `server.json`, in characters.
pub const MCP_TEXT_CHARACTERS: usize = 100;
/// Longest address of an icon in a `server.json`, in characters.
pub const MCP_ICON_CHARACTERS: usize = 255;
/// Most that a publisher may keep under `_meta` of a `server.json`, in bytes of JSON.
pub const MCP_PUBLISHER_BYTES: usize = 4 * 1024;
/// Most entities that a question about the graph begins with.
pub const GRAPH_ROOTS: usize = 1_000;
/// Most entities in an answer about the graph.
pub const GRAPH_NODES: usize = 10_000;
/// Most edges in an answer about the graph.
pub const GRAPH_EDGES: usize = 50_000;
/// Most paths in an answer why one entity needs another.
pub const GRAPH_PATHS: usize = 100;
/// Most dependents that are validated anew to see what a change breaks; nearest first.
pub const IMPACT_DOCUMENTS: usize = 1_000;
/// Most requirements in one question for exact versions.
pub const REQUIREMENTS: usize = 1_000;
/// Longest version constraint, in bytes.
pub const CONSTRAINT_BYTES: usize = 256;
/// Most versions that an answer names to say why none of them fits.
pub const CANDIDATES: usize = 20;
/// Most steps of checking all compositions of one commit: comparisons, and calls of trial runs.
pub const FLOW_STEPS: usize = 4_000_000;
/// Least steps of checking one composition, independent of the other compositions of its commit.
pub const FLOW_STEPS_EACH: usize = 5_000;
/// Most differences and doubts that an answer names of one comparison.
pub const COMPARISON_FINDINGS: usize = 100;
/// Longest value that an answer gives to show a difference, in bytes of JSON.
pub const COMPARISON_INSTANCE_BYTES: usize = 16 * 1024;
/// Most roots of a scope.
pub const SCOPE_ROOTS: usize = 1_000;
/// Most pairs of items that are looked at to find, in all arrays of a document, those that are the same
/// in another's.
pub const ALIGNED_PAIRS: usize = 1 << 20;
/// The same for all versions of which a blame reads.
pub const BLAMED_PAIRS: usize = 1 << 24;
/// Most bytes of earlier versions that are read to say where the values of a document come from.
pub const BLAME_BYTES: usize = 64 * 1024 * 1024;
