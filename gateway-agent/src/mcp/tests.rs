//! The endpoint with its real router and upstream sockets.

mod approvals;
pub(crate) mod audit;
mod budgets;
mod calls;
mod chained;
mod composed;
mod far_side;
mod fuzz;
mod governance;
mod governed_paths;
pub(crate) mod harness;
mod headers;
mod identity;
mod inspection;
mod legacy;
mod lists;
mod policy;
mod priced_tasks;
mod projected;
pub(crate) mod relayed;
mod shares;
mod streams;
mod subscriptions;
mod tasks;
mod usage;
