//! The registry service: one log, validated writes, a stream of every change.
//!
//! `grpc` and `http` call the use cases in `app`; those write through the `registrar`, read the
//! present from the `feed`'s hub and the past from the `store`.

pub mod access;
pub mod app;
pub mod checkpoint_key;
pub mod clock;
pub mod config;
pub mod connections;
mod cors;
pub mod feed;
mod flags;
mod gate;
pub mod grpc;
mod host;
pub mod http;
pub mod metrics;
mod peer;
pub mod registrar;
pub mod relay;
pub mod server;
pub mod store;
pub mod telemetry;

pub use config::Config;
pub use server::Server;
