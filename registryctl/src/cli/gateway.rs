//! The arguments of `gateway`: operations at the admin address of one gateway.

use std::{fs, path::PathBuf};

use clap::{Args, Subcommand};
use registry_core::{Key, Kind, Name, Secret, Version};

use super::ConfirmArgs;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// Admin address of the gateway
    ///
    /// `admin` in its configuration. The environment variable is `GATEWAY_ADMIN_URL`.
    #[arg(
        long,
        global = true,
        env = "GATEWAY_ADMIN_URL",
        hide_env = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:7081"
    )]
    pub(crate) admin: String,
    /// File with the admin token (`GATEWAY_ADMIN_TOKEN_FILE`)
    ///
    /// `adminTokenFile` in its configuration. `GATEWAY_ADMIN_TOKEN` can have the token instead.
    #[arg(
        long,
        global = true,
        env = "GATEWAY_ADMIN_TOKEN_FILE",
        hide_env = true,
        value_name = "FILE"
    )]
    admin_token_file: Option<PathBuf>,
    #[arg(long, global = true, env = "GATEWAY_ADMIN_TOKEN", hide = true, hide_env_values = true)]
    admin_token: Option<Secret>,
    #[command(subcommand)]
    pub(crate) command: GatewayCommand,
}

impl GatewayArgs {
    /// Reads the admin token.
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        let Some(path) = &self.admin_token_file else { return Ok(self.admin_token.clone()) };
        let text = fs::read_to_string(path).map_err(|e| Failure::unreadable(path, e))?;
        Ok(Some(Secret::from(text.trim().to_owned())))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// List targets with their state, load and last error
    Targets,
    /// Probe a target now
    Check(TargetArgs),
    /// Probe a target within a second; exit status 1 unless it is up
    Health(TargetArgs),
    /// Stop calls of a target and unlist its tools; running calls finish
    #[command(alias = "drain")]
    Stop(ChangeTargetArgs),
    /// Send calls to a stopped target again
    #[command(alias = "undrain")]
    Start(ChangeTargetArgs),
    /// Reload the configuration file now, and list settings that need a restart
    Reload(ConfirmArgs),
    /// List tools whose live definition differs from the registered or first seen one
    Contracts,
    /// Accept the live definition of a tool, which ends its quarantine
    Accept(AcceptArgs),
    /// List sagas, newest first; show one, or retry its compensation
    Sagas(SagasArgs),
    /// List the approvals of a gateway without a registry; approve or deny calls
    Approvals(GatewayApprovalsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatewayApprovalsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<GatewayApprovalsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayApprovalsCommand {
    /// Allow a call, once
    Approve(GatewayApproveArgs),
    /// Reject a call; it cannot be requested again for 24 hours
    Deny(GatewayDenyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatewayApproveArgs {
    /// Id of the request, as `gateway approvals` prints it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayDenyArgs {
    /// Id of the request, as `gateway approvals` prints it
    pub(crate) id: String,
    /// Reason, which the caller receives
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// A target of `gateway targets`: NAME@VERSION, NAME@* or agent/NAME@VERSION
    #[arg(value_name = "NAME@VERSION", value_parser = target)]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeTargetArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// The registered tool, or agent/NAME@VERSION
    #[arg(value_name = "NAME@VERSION", value_parser = tool_or_agent)]
    pub(crate) tool: Key,
    /// Digest of the live definition, as `gateway contracts` prints it
    pub(crate) live: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SagasArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SagasCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SagasCommand {
    /// Show the steps of a saga; inputs and results only until it is completed or compensated
    Show(SagaArgs),
    /// Retry the failed compensation of a saga
    Retry(RetrySagaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SagaArgs {
    /// Id of the saga, as `gateway sagas` prints it
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct RetrySagaArgs {
    #[command(flatten)]
    pub(crate) saga: SagaArgs,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

fn target(text: &str) -> Result<String, String> {
    let kind = if text.starts_with("agent/") { Kind::Agent } else { Kind::Server };
    let Some(unversioned) = text.strip_suffix("@*") else {
        return key(kind, text).map(|key| key.to_string());
    };
    let bare = unversioned.strip_prefix(&format!("{kind}/")).unwrap_or(unversioned);
    let name = Name::parse(kind, bare).map_err(|e| e.to_string())?;
    Ok(format!("{kind}/{name}@*"))
}

fn tool_or_agent(text: &str) -> Result<Key, String> {
    key(if text.starts_with("agent/") { Kind::Agent } else { Kind::Tool }, text)
}

/// Parses `NAME@VERSION`; the kind before it is optional.
fn key(kind: Kind, text: &str) -> Result<Key, String> {
    let bare = text.strip_prefix(&format!("{kind}/")).unwrap_or(text);
    let (name, version) = bare.rsplit_once('@').ok_or("write NAME@VERSION")?;
    let name = Name::parse(kind, name).map_err(|e| e.to_string())?;
    let version = Version::parse(version).map_err(|e| e.to_string())?;
    Ok(Key::new(kind, name, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_prefix_is_optional() {
        for text in ["team/fetch@1.2.3", "server/team/fetch@1.2.3"] {
            assert_eq!(target(text).unwrap(), "server/team/fetch@1.2.3");
        }
        assert_eq!(target("team/fetch@*").unwrap(), "server/team/fetch@*");
        assert_eq!(target("agent/team/a@1.0.0").unwrap(), "agent/team/a@1.0.0");
        assert!(tool_or_agent("fetch").unwrap_err().contains("NAME@VERSION"));
        assert!(tool_or_agent("fetch@one").is_err());
    }
}
