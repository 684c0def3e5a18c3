//! Inspection of texts and JSON for credentials and personal data.
//!
//! An [`Inspector`] reads a text once with a prefilter, and validates each candidate: check digits,
//! checksums, structure, or entropy next to a keyword. A [`Finding`] has the class, the detector, the
//! JSON pointer, the span and a keyed digest of a value, never the value itself.
//!
//! Time is linear in the length of the text. The crate performs no I/O and has no random numbers.

mod class;
mod context;
mod detect;
mod detector;
mod detectors;
mod encoded;
mod finding;
mod inspector;
mod json;
mod placeholder;
mod prefilter;
mod rewrite;
mod scan;
mod search;
mod stream;

pub use self::{
    class::Classes,
    detector::{Detector, Selection},
    detectors::UnknownDetector,
    finding::{DigestKey, Encoding, Finding, Findings, MAX_FINDINGS, Part, ValueDigest},
    inspector::Inspector,
    json::{InvalidJson, MAX_DEPTH, each_string, map_strings},
    placeholder::{InvalidPlaceholder, Placeholder, find_placeholders, redaction},
    rewrite::{KeyFinding, Overlap, rewrite_json, rewrite_text},
    stream::{MAX_OPEN_BYTES, TextEnd, complete_bytes, settled_bytes},
};
