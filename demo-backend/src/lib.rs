//! Working MCP servers for the demo, the tests and the benchmarks: ten domains behind one address.
//!
//! Everything lives in memory and ids are counters, so a run is repeatable. Persistence,
//! authentication and outgoing network access are not supported.

pub mod cli;
pub mod clock;
pub mod hosted;
pub mod http;
pub mod orders;
pub mod page;
pub mod refusal;
pub mod relevance;
pub mod search;
pub mod servers;
pub mod shelf;
pub mod stdio;
