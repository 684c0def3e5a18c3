//! Scripted upstream servers for tests.
//!
//! [`Server`] speaks HTTP over a socket and writes the bytes of a [`Reply`], also malformed ones. [`McpServer`]
//! adds discovery, sessions and the list of tools; a test only scripts the calls. [`GrpcServer`] is an A2A
//! agent over gRPC.
//!
//! [`keep_second_subscriber`] is for tests that capture their log.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod grpc;
mod log;
mod mcp;
mod reply;
mod server;

pub use h2::Reason;

pub use self::{
    grpc::{GrpcCall, GrpcServer, GrpcStep},
    log::keep_second_subscriber,
    mcp::McpServer,
    reply::{Reply, empty, json_reply, late, raw_reply, sse_reply},
    server::{Received, Server},
};
