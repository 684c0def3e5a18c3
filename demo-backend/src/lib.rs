//! MCP servers for the demo, the tests and the benchmarks: ten domains at one address.
//!
//! All state is in memory, and ids are counters, so runs are repeatable. Persistence,
//! authentication and outgoing network access are not supported.

pub mod cli;
pub mod clock;
pub mod hosted_server;
pub mod http;
pub mod orders;
pub mod page;
pub mod records;
pub mod relevance;
pub mod search;
pub mod servers;
pub mod stdio;
pub mod tool_error;
