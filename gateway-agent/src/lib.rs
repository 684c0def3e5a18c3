//! The gateway between agents and tools. It keeps a verified local copy of the registry, exposes to
//! each agent only its declared tools, and keeps serving while the registry is unavailable.

// Futures of a call nest through all layers of the pipeline and of the HTTP client.
#![recursion_limit = "256"]

mod a2a;
pub mod admin;
mod agent_rpc;
pub mod approvals;
pub mod audit;
mod batched_file;
pub mod bridge;
mod buffers;
pub mod cache;
mod capacity;
pub mod catalog_verifier;
pub mod check;
mod clock;
pub mod config;
pub mod contract;
pub mod feed;
mod files;
pub mod findings;
mod fixed_window;
pub mod freshness;
mod governance;
pub mod graphs;
mod health;
pub mod identity;
pub mod ingress;
mod inspection;
pub mod logging;
pub mod mcp;
pub mod metric_table;
mod origin;
pub mod pipeline;
mod random;
pub mod registrations;
mod reports;
mod seal;
pub mod server;
pub mod source;
pub mod spending;
pub mod startup;
pub mod sync;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls_metrics;
pub mod trace;
pub mod usage;
pub mod view;
mod weak_map;
mod workers;
