//! Limits of the index and of queries.

/// Maximum number of indexed words per document; the most significant ones come first.
pub const SEARCH_TERMS: usize = 2_000;
/// Maximum size of a query text in bytes.
pub const SEARCH_BYTES: usize = 1024;
/// Maximum number of distinct words of a query; further ones are ignored.
pub const SEARCH_WORDS: usize = 16;
/// Maximum number of terms for a fuzzy match of one word.
pub const SEARCH_EXPANSIONS: usize = 48;
/// Maximum number of terms for a prefix match of one word.
pub const SEARCH_BEGINNINGS: usize = 1_000;
/// Maximum number of dictionary terms visited by one query for prefix and fuzzy matches.
pub const SEARCH_STEPS: usize = 20_000;
/// Maximum number of postings visited by one query, rarest words first.
pub const SEARCH_POSTINGS: usize = 2_000_000;
/// Maximum number of tags, kinds or states in the filter of a query.
pub const SEARCH_FILTERS: usize = 16;
/// Maximum number of names visited for one page of a list without words.
pub const SEARCH_NAMES: usize = 2_000;
