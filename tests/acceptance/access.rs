//! Who may call what: every method of every service that is served, and what is shown to it.

mod bad_tokens;
mod command_line;
mod database_tls;
mod every_rpc;
pub(crate) mod identity_provider;
mod ownership;
mod start;
mod streams;
mod tls;
