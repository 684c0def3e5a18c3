//! Histories of real processes under faults satisfy all invariants, and each validator detects
//! histories that do not.

mod handful;
mod mutated;
mod mutations;
