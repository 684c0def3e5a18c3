//! The proof proves: histories of real processes under faults keep every promise, and each validator
//! catches a history that does not.
//!
//! Deliberately absent: long runs; `make soak` does those.

mod handful;
mod mutated;
mod mutations;
