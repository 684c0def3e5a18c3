//! The registry service: an append-only log, validated writes, and a stream of commits.
//!
//! `grpc` and `http` call the use cases in `app`, and `connect` translates JSON for `grpc`. Writes go through the `registrar`, reads of the current state
//! use the hub of the `feed`, and reads of earlier states use the `store`.

pub mod access;
pub mod app;
pub mod approval_key;
pub mod checkpoint_key;
pub mod clock;
pub mod config;
mod connect;
pub mod connections;
mod cors;
pub mod feed;
mod flags;
mod gate;
pub mod grpc;
mod host;
pub mod http;
mod key_file;
pub mod metrics;
mod peer;
pub mod registrar;
pub mod relay;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod web;

pub use config::Config;
pub use server::Server;
