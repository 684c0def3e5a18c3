//! MCP servers and A2A agents for the demo, the tests and the benchmarks at one address.
//!
//! All state is in memory, and ids are counters, so runs are repeatable. Persistence,
//! authentication of MCP clients and outgoing network access are not supported.

pub mod agents;
pub mod cli;
pub mod client_options;
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
