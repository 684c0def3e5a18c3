//! Registries for the tests of other crates.

pub mod world;
