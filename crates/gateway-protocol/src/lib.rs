//! The protocols that the gateway speaks, as types and text. The crate performs no I/O.

pub mod content;
pub mod jsonrpc;
pub mod mcp;
pub mod naming;
pub mod sse;
pub mod trace_context;
