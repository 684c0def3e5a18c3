//! Records histories of real servers, gateways and Postgres, with writers, readers and followers,
//! or with callers of tools that have prices or need approvals, while a nemesis injects faults. One seed
//! determines the plan; thread scheduling is not deterministic.

mod approvals;
mod budgets;
mod caller;
mod corruption;
mod entity;
mod fleet;
mod follower;
mod follower_state;
mod gateway;
pub mod history_writer;
mod link;
mod nemesis;
mod plan;
mod postgres;
mod reader;
mod rng;
mod run;
mod server;
mod settle;
mod shim;
pub mod soak;
mod workload;
mod writer;

pub use approvals::record_approvals;
pub use budgets::record_budgets;
pub use fleet::FleetPlan;
pub use plan::Plan;
pub use postgres::Postgres;
pub use run::{Recorded, record};
