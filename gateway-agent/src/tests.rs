//! Tests of the whole library: a surface in addition to the MCP endpoint.

mod toy_surface;
