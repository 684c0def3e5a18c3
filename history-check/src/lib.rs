//! Recorded histories of a registry, and whether they keep its promises.
//!
//! A history is a file of JSON lines ([`event`]): what each process was asked, answered, sent and
//! kept, in the order in which it was seen, and at its end the log as the database has it. The
//! validators look at nothing else. They share no code with the registry: the fold over the log, the
//! closure of a scope and the chain are written here once more, from their definitions.

pub mod closure;
pub mod event;
mod held;
mod history;
mod journal;
pub mod log;
mod requests;
pub mod state;
pub mod validators;

pub use event::{Event, Line};
pub use history::{History, Unreadable};
pub use log::Log;
pub use validators::{VALIDATORS, Validator, Violation};
