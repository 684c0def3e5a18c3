//! Recorded histories of a registry, and checks of its invariants.
//!
//! A history is a file of JSON lines ([`event`]): the requests, answers and messages of each
//! process in the order of observation, followed by the log in the database. The validators use
//! nothing else. They share no code with the registry: the application of commits, the closure of a
//! scope and the chain are implemented again from their definitions.

pub mod closure;
pub mod event;
mod history;
mod journal;
pub mod log;
mod replica;
mod requests;
pub mod state;
pub mod validators;

pub use event::{Event, Line};
pub use history::{History, ParseError};
pub use log::Log;
pub use validators::{VALIDATORS, Validator, Violation};
