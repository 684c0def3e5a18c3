//! The arguments of `trace`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The role auditor shows the calls of all callers of gateways. Others see their own.
Calls of the last seconds may be missing: gateways report every second.")]
pub(crate) struct TraceArgs {
    /// The id of the trace, as its caller sent it
    pub(crate) trace_id: String,
}
