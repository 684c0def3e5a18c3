//! The arguments of `gateways`.
//!
//! Deliberately absent: what the commands do.

use clap::Args;
use registry_proto::v1;

#[derive(Debug, Args)]
pub(crate) struct GatewaysArgs {
    /// Only those that follow the registry now
    #[arg(long)]
    pub(crate) connected: bool,
    /// Only those that have followed it and are gone
    #[arg(long, conflicts_with = "connected")]
    pub(crate) gone: bool,
    /// Only those that have not applied this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0, hide_default_value = true)]
    pub(crate) behind: u64,
    /// Only names that begin so
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}

impl GatewaysArgs {
    /// Of both or neither, everybody.
    pub(crate) fn state(&self) -> v1::GatewayState {
        match (self.connected, self.gone) {
            (true, false) => v1::GatewayState::Connected,
            (false, true) => v1::GatewayState::Gone,
            _ => v1::GatewayState::Unspecified,
        }
    }
}
