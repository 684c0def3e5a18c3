//! The arguments of `trace`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The role auditor shows the calls of all callers of gateways. Others see their own.
The registry has calls of AIO, of `agent.execute` with a trace id, and steps of their compositions.
For other calls, see `trace_id` in the audit log, or `GET /admin/traces/ID` of a gateway.
Calls of the last seconds may be missing: gateways report every second.")]
pub(crate) struct TraceArgs {
    /// The `trace_id` of the calls, as their caller sent it
    pub(crate) trace_id: String,
}
