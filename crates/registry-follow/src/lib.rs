//! The client side of the Sync stream, for every program that keeps a copy of a registry: gateways
//! and relays. [`LedgerClient`] is the client of the ledger of budgets, [`UsageClient`] reports the
//! usage of tools, [`TraceClient`] the calls of traces, [`ApprovalClient`] forwards messages about
//! approvals, and [`RegistrationClient`] registers data agents.
//!
//! A [`Follower`] connects to one of several servers, sends the messages of a [`Follow`]
//! implementation, passes the server's messages to it, and reconnects after an interruption. A
//! message that cannot be decoded or verified is answered with a NACK. After a failure the next
//! server is tried immediately; the delay grows only when all servers have failed.

mod address;
mod approval;
mod connection;
mod credentials;
mod follow;
mod follower;
mod ledger;
mod registration;
mod registry_clock;
mod session;
mod stream;
mod timing;
mod trace;
mod usage;

pub use self::{
    approval::ApprovalClient,
    ledger::{GatewayRecalls, LedgerClient},
    registration::{RegistrationBatch, RegistrationClient, RegistrationError},
    trace::{StoredCall, TraceClient, TracePage, TracedCall},
    usage::UsageClient,
};
pub use address::{InvalidAddress, MAX_SERVERS, addresses};
pub use credentials::{Credentials, Token};
pub use follow::{Follow, FollowerMessage, MessageEffect, RejectedMessage, StreamState};
pub use follower::{Follower, certificate_remedy};
pub use registry_clock::{RegistryClock, parse_age};
pub use session::{reason_of, shortened};
pub use stream::{NotSent, Stream};
pub use timing::Timing;
