//! Full-text search over the catalog with an in-memory index that follows the log.
//!
//! Documents are immutable, so their words are only ever added. Mutable properties (lifecycle, and
//! the version that represents a name) are stored separately and recomputed for the names that a
//! commit affects. Index versions share structure. Entities are numbered by registration and key,
//! so that two indexes of one catalog give equal results regardless of their history.

mod edit_distance;
mod entry;
mod filter;
mod index;
pub mod limits;
mod page;
mod postings;
mod query;
mod rank;
mod snippet;
mod terms;
#[cfg(test)]
mod tests;
mod text;
mod weights;
mod words;

pub use index::Index;
pub use query::{Cursor, Hit, InvalidTarget, Query, ResultPage, Target, Total, Versions};
pub use snippet::Highlight;
pub use text::Field;
