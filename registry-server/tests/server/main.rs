//! Tests of the server over real sockets and databases with the generated client.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod apply;
mod approvals;
mod crowd;
mod fleet;
mod follower;
mod harness;
mod ledger;
mod lost_answer;
mod pages;
mod postgres;
mod property;
mod read;
mod retry;
mod scopes;
mod surface;
mod sync;
