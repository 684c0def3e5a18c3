//! The server through its front door: a real socket, a real SQLite file, the generated client.
//!
//! Deliberately absent: processes and signals, which the acceptance tests start for real.

mod apply;
mod follower;
mod harness;
