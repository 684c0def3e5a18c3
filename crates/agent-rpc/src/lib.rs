//! The messages of data agents (`agent.execute`), AIO (`agent::module.method`) and the orchestrator
//! (`/execute`), without I/O, clocks and gateway state.
//!
//! A body is read into a typed [`Request`] or an error with a code and a reason. Inputs and results
//! stay raw text, so that their numbers keep all digits.
//!
//! | module | content |
//! |---|---|
//! | [`envelope`] | requests and answers: ids, trace ids, members beside the result |
//! | [`request`] | the methods and their parameters |
//! | [`execute`], [`heartbeat`], [`registration`] | the methods of data agents |
//! | [`loose_type`] | the types of registrations, and their JSON Schemas |
//! | [`aio`], [`media`] | methods of AIO; multimodal values, and their form in MCP and A2A |
//! | [`help`], [`graph`] | the answer of `help`; execution graphs |
//! | [`orchestrator`], [`manifest`] | `/execute`, manifests of agents and of tools |
//! | [`tool_name`] | names of tools for model providers |
//! | [`failure`] | errors, their codes and reasons |

pub mod aio;
pub mod envelope;
pub mod execute;
pub mod failure;
mod fields;
pub mod graph;
pub mod heartbeat;
pub mod help;
pub mod loose_type;
pub mod manifest;
pub mod media;
pub mod orchestrator;
mod quantity;
pub mod registration;
pub mod request;
mod text;
pub mod tool_name;

pub use self::{
    failure::{Failure, Reason},
    request::Request,
};
