//! Limits of the index and of a search.

/// Maximum number of indexed words per document; the most significant ones come first.
pub const SEARCH_TERMS: usize = 2_000;
/// Longest text of a search, in bytes.
pub const SEARCH_BYTES: usize = 1024;
/// Most different words of a search that count; the first ones.
pub const SEARCH_WORDS: usize = 16;
/// Most terms that one word of a search nearly is.
pub const SEARCH_EXPANSIONS: usize = 48;
/// Most terms that one word of a search is the beginning of.
pub const SEARCH_BEGINNINGS: usize = 1_000;
/// Most terms that one search looks at for beginnings of words and for what is nearly a word.
pub const SEARCH_STEPS: usize = 20_000;
/// Most places of terms that one search looks at; the words that are rarest come first.
pub const SEARCH_POSTINGS: usize = 2_000_000;
/// Most tags, kinds or states in the filter of a search.
pub const SEARCH_FILTERS: usize = 16;
/// Most names that a list without words looks at for one page.
pub const SEARCH_NAMES: usize = 2_000;
