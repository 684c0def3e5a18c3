//! AIO through its real router: a server of MCP, tools of other agents, and an agent of A2A.

mod bad_input;
mod calls;
mod fixtures;
mod governed_paths;
mod graphs;
mod harness;
mod sampling;
