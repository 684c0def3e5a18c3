//! The proof proves: histories of real processes under faults keep every promise, and each validator
//! catches a history that does not.

mod handful;
mod mutated;
mod mutations;
