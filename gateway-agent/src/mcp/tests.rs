//! The endpoint from its front door: the real router, real upstream sockets behind it.

mod audit;
mod calls;
mod chained;
mod composed;
mod far_side;
mod fuzz;
mod harness;
mod headers;
mod identity;
mod legacy;
mod lists;
mod policy;
mod projected;
mod relayed;
mod shares;
mod streams;
mod subscriptions;
mod tasks;
mod toy_surface;
