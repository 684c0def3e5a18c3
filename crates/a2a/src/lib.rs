//! The A2A protocol in its versions 0.3 and 1.0, without I/O, clocks and gateway state.
//!
//! The internal form of every request, answer and event is the JSON of A2A 1.0. [`rpc`], [`rest`]
//! and [`stream`] read and write a [`Dialect`], that is a version and a binding; [`translate`]
//! converts single values. Members that no version of the protocol defines are kept.
//!
//! | module | content |
//! |---|---|
//! | [`version`], [`extensions`] | versions and bindings; the extensions of a request |
//! | [`operation`] | operations and their names |
//! | [`request`], [`model`] | requests, messages, parts and tasks in their internal form |
//! | [`rpc`], [`rest`], [`stream`] | the bindings JSON-RPC and HTTP+JSON, and their event streams |
//! | [`grpc`] | the binding gRPC |
//! | [`translate`] | conversion between the internal form and a dialect |
//! | [`error`] | errors and their shape in each binding |
//! | [`card`], [`signature`] | agent cards: parsing, interfaces, rewriting, signatures |
//! | [`hidden`] | removal of an agent's addresses from its card, answers and errors |
//! | [`skill`], [`task`] | skill selection, media types, data parts; lists and ids of tasks |
//! | [`tool`] | skills as tools: arguments to messages, tasks to tool results |

mod body;
pub mod card;
pub mod error;
pub mod extensions;
mod fields;
pub mod grpc;
pub mod hidden;
mod json;
mod legacy;
pub mod model;
pub mod operation;
pub mod request;
pub mod rest;
pub mod rpc;
pub mod signature;
pub mod skill;
pub mod stream;
pub mod task;
pub mod tool;
pub mod translate;
mod untranslatable;
pub mod version;
mod version_parameter;

pub use self::{
    error::{ErrorKind, Failure},
    model::TaskState,
    operation::Operation,
    request::Request,
    translate::Untranslatable,
    version::{Binding, Dialect, Version},
};
