//! Upstreams against real sockets and real processes.
