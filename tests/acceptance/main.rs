//! The front door: what a user of the real programs sees, one module a theme.
//!
//! Deliberately absent: anything below the programs' own interfaces; crates test their insides.

mod access;
mod audit;
mod command_line;
mod compatibility;
mod conformance;
mod contracts;
mod credentials;
mod crowd;
mod demo;
mod enforcement;
mod export;
mod faults;
mod fleet;
mod following;
mod gateway_identity;
mod gateway_tls;
mod gitops;
mod governance;
mod graph;
mod hammer;
mod high_availability;
mod history;
mod identity;
mod import_a2a;
mod import_mcp;
mod import_registry;
mod liar;
mod locking;
mod mcp_registry;
mod offline;
mod operating;
mod registration;
mod relay_start;
mod relays;
mod sbom;
mod scopes;
mod sdk;
mod searching;
mod seeing;
mod several_servers;
mod staleness;
mod targets;
mod verify_live;
mod world;
