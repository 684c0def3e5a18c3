//! The A2A agents of this process, over JSON-RPC. Each module is one agent with its skills.
//!
//! The protocol is implemented without the gateway's crates, so that demo and tests notice mistakes
//! of the gateway.

pub mod bench;
mod endpoint;
pub mod hosted_agent;
pub mod orchestrator;
pub mod research;
pub mod summarizer;
mod tasks;
pub mod wire;

pub use self::{endpoint::router, hosted_agent::HostedAgent};

use crate::clock::Clock;

/// Every agent, with fresh state.
pub fn all(clock: Clock) -> Vec<HostedAgent> {
    let definitions = [research::AGENT, summarizer::AGENT, orchestrator::AGENT];
    definitions.map(|definition| HostedAgent::new(definition, clock)).into()
}
