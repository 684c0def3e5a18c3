//! TLS of ports and links, from files (PEM) that may be replaced while a program runs, and the
//! number of connections that a port accepts from one address.
//!
//! Settings and the rights of a certificate's holder belong to the services. Revocation is checked
//! by lists (CRL), not by OCSP.

mod acceptor;
mod address;
mod client;
mod file;
mod fresh;
mod holder;

pub use acceptor::{Acceptor, Clients, Counts, ServerFiles};
pub use address::{AddressLimit, AddressPlace, client_network};
pub use client::ClientFiles;
pub use file::InvalidFile;
pub use fresh::Fresh;
pub use holder::{Holder, SPIFFE, is_like_spiffe};
