//! Tests of the whole library: a surface beside the MCP endpoint.

mod toy_surface;
