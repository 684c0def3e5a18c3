//! Who may call what: every method of every service that is served, and what is shown to it.

mod bad_tokens;
mod every_rpc;
