//! Access control: required roles of every served method, tokens, TLS, ownership, and streams.

mod client_files;
mod command_line;
mod database_tls;
pub(crate) mod identity_provider;
mod invalid_tokens;
mod method_roles;
mod ownership;
mod start;
mod streams;
mod tls;
