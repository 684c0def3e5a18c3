//! The arguments of `gateway`: what an operator does at one gateway's admin address.

use std::{fs, path::PathBuf};

use clap::{Args, Subcommand};
use registry_core::{Key, Kind, Name, Secret, Version};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// The gateway's admin address (`admin` in its configuration)
    #[arg(
        long,
        global = true,
        env = "GATEWAY_ADMIN_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:7081"
    )]
    pub(crate) admin: String,
    /// A file with the token that it asks for (`adminTokenFile`); or `GATEWAY_ADMIN_TOKEN`
    #[arg(long, global = true, env = "GATEWAY_ADMIN_TOKEN_FILE", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    #[arg(long, global = true, env = "GATEWAY_ADMIN_TOKEN", hide = true, hide_env_values = true)]
    admin_token: Option<Secret>,
    #[command(subcommand)]
    pub(crate) command: GatewayCommand,
}

impl GatewayArgs {
    /// The token, if there is one.
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        let Some(path) = &self.admin_token_file else { return Ok(self.admin_token.clone()) };
        let text = fs::read_to_string(path).map_err(|e| Failure::unreadable(path, e))?;
        Ok(Some(Secret::from(text.trim().to_owned())))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// List its targets: how each is, what it works on, and why it is down
    Targets,
    /// Look at a target at once
    Check(TargetArgs),
    /// Give a target no more calls; those that it has are finished
    Stop(TargetArgs),
    /// Start a target that was stopped
    Start(TargetArgs),
    /// Take over its configuration file now, and say what waits for a restart
    Reload,
    /// List the tools of which their servers say something else than was registered or first seen
    Contracts,
    /// Accept what a tool's server says of it now, which ends its quarantine
    Accept(AcceptArgs),
    /// List the sagas that it knows, the newest first; show one, or try again to undo it
    Sagas(SagasArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The target as `targets` lists it: NAME@VERSION, NAME@* or agent/NAME@VERSION
    #[arg(value_name = "NAME@VERSION", value_parser = target)]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// The registered tool: NAME@VERSION
    #[arg(value_name = "NAME@VERSION", value_parser = tool)]
    pub(crate) tool: Key,
    /// The digest of the definition, as `contracts` shows it
    pub(crate) live: String,
}

#[derive(Debug, Args)]
pub(crate) struct SagasArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SagasCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SagasCommand {
    /// Show what has happened to a saga, with what its tools were given and gave
    Show(SagaArgs),
    /// Try again to undo what could not be undone
    Retry(SagaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SagaArgs {
    /// The saga, as the list names it
    pub(crate) id: String,
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

fn tool(text: &str) -> Result<Key, String> {
    key(Kind::Tool, text)
}

/// `NAME@VERSION`, perhaps with its kind before it.
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
    fn the_kind_need_not_be_said() {
        for text in ["team/fetch@1.2.3", "server/team/fetch@1.2.3"] {
            assert_eq!(target(text).unwrap(), "server/team/fetch@1.2.3");
        }
        assert_eq!(target("team/fetch@*").unwrap(), "server/team/fetch@*");
        assert_eq!(target("agent/team/a@1.0.0").unwrap(), "agent/team/a@1.0.0");
        assert!(tool("fetch").unwrap_err().contains("NAME@VERSION"));
        assert!(tool("fetch@one").is_err());
    }
}
