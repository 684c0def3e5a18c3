//! TLS of servers and clients from PEM files that may be replaced at runtime, and connection limits
//! per client address.
//!
//! Settings, and the permissions of a certificate holder, belong to the services. Revocation is
//! checked with lists (CRL), not with OCSP.

mod acceptor;
mod address;
mod client;
mod file;
mod holder;
mod reload;

pub use acceptor::{Acceptor, ClientAuth, MetricsHooks, ServerFiles};
pub use address::{AddressLimit, AddressPlace, client_network};
pub use client::{ClientFiles, ClientPem, is_ca_certificate, is_untrusted_ca};
pub use file::InvalidFile;
pub use holder::{Holder, SPIFFE, is_like_spiffe};
pub use reload::Reloaded;
