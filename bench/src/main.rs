//! Wiring.

fn main() {}
