//! TLS of ports and links, from files (PEM) that may be replaced while a program runs.
//!
//! Deliberately absent: which settings name the files, what a certificate's holder may do, and asking authorities
//! which certificates they have revoked (OCSP).

mod acceptor;
mod client;
mod file;
mod fresh;
mod holder;

pub use acceptor::{Acceptor, Clients, Counts, ServerFiles};
pub use client::ClientFiles;
pub use file::InvalidFile;
pub use fresh::Fresh;
pub use holder::{Holder, SPIFFE, is_like_spiffe};
