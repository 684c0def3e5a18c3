//! The surface with its real router and a scripted agent.

mod answers;
mod approvals;
mod bridges;
mod card_contracts;
mod cards;
mod governed_paths;
mod grpc;
mod grpc_client;
mod harness;
mod lists;
mod loops;
mod ownership;
mod push;
mod streams;
