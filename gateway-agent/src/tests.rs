//! Tests of the whole library: a surface in addition to the MCP endpoint, and operations at agents.

mod agent_calls;
mod toy_surface;
