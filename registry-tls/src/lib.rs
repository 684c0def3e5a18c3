//! TLS of ports and links, from files (PEM) that may be replaced while a program runs.
//!
//! Deliberately absent: which settings name the files, who a certificate is, and asking authorities
//! which certificates they have revoked (OCSP).

mod acceptor;
mod client;
mod file;
mod fresh;

pub use acceptor::{Acceptor, Clients, Counts, ServerFiles};
pub use client::ClientFiles;
pub use file::InvalidFile;
pub use fresh::Fresh;
