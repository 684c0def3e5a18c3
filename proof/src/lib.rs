//! Records histories: real servers, gateways and a real Postgres, with writers, readers and
//! followers, while a nemesis breaks what it can. One seed decides everything that is ours to decide;
//! how the machine runs the threads is not.

pub mod book;
mod caller;
mod end;
mod entity;
mod follower;
mod gateway;
mod holding;
mod link;
mod nemesis;
mod plan;
mod postgres;
mod reader;
mod rng;
mod run;
mod server;
mod shim;
pub mod soak;
mod spoil;
mod world;
mod writer;

pub use plan::Plan;
pub use postgres::Postgres;
pub use run::{Recorded, record};
