//! The arguments of commands that change lifecycles and settings.

use std::str::FromStr;

use clap::Args;
use registry_core::{
    Date, InvalidSelector, Key, Kind, Name, Selector,
    compatibility::{InvalidMode, Mode},
};

use super::{AsOfArgs, CommitArgs, ConfirmArgs, log::parse_revision, selector::parse_key};

#[derive(Debug, Args)]
pub(crate) struct LifecycleArgs {
    /// The entity
    #[arg(value_name = "KIND/NAME@VERSION", value_parser = parse_key)]
    pub(crate) key: Key,
    /// Reason; also the commit message
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Accept tools that policies do not fit; their calls are denied
    #[arg(long, help_heading = "Commit")]
    pub(crate) allow_policy_break: bool,
    #[command(flatten)]
    pub(crate) change: LifecycleArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeprecateArgs {
    /// Registered replacement
    #[arg(long, value_name = "KIND/NAME@VERSION", value_parser = parse_key)]
    pub(crate) replacement: Option<Key>,
    /// Sunset date (UTC) after which the entity may be removed
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) sunset: Option<Date>,
    #[command(flatten)]
    pub(crate) change: LifecycleArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RetireArgs {
    /// The entity; with --with-tools, server/NAME selects all versions
    #[arg(value_name = "KIND/NAME@VERSION")]
    pub(crate) versions: Versions,
    /// Also retire every tool of the server, in the same commit
    #[arg(long, conflicts_with = "replacement")]
    pub(crate) with_tools: bool,
    /// Reason; also the commit message
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    /// Registered replacement
    #[arg(long, value_name = "KIND/NAME@VERSION", value_parser = parse_key)]
    pub(crate) replacement: Option<Key>,
    /// Sunset date (UTC)
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) sunset: Option<Date>,
    /// Retire despite active dependents, for this recorded reason
    #[arg(long, value_name = "REASON")]
    pub(crate) force: Option<String>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

/// One version, or all versions of a name.
#[derive(Debug, Clone)]
pub(crate) enum Versions {
    One(Key),
    All(Kind, Name),
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('@') {
            return parse_key(text).map(Self::One);
        }
        match text.parse() {
            Ok(Selector::Name(kind, name)) => Ok(Self::All(kind, name)),
            _ => Err(format!("`{text}` is not KIND/NAME@VERSION, such as server/files@1.2.3")),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RevertArgs {
    /// The revision to revert
    #[arg(value_parser = parse_revision)]
    pub(crate) revision: u64,
    /// Commit message [default: the reverted revision and its message]
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// The name, with all its versions
    #[arg(value_name = "KIND/NAME", value_parser = selector)]
    pub(crate) target: Selector,
    #[command(flatten)]
    pub(crate) reason: ReasonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// The name or namespace: tool/fetch, team/*, com.example.*
    #[arg(value_name = "KIND/NAME|NAMESPACE", value_parser = selector)]
    pub(crate) target: Selector,
    /// The new owner
    #[arg(required_unless_present = "owner_option")]
    owner: Option<String>,
    /// The same as the argument
    #[arg(long = "owner", value_name = "OWNER", conflicts_with = "owner")]
    owner_option: Option<String>,
    #[command(flatten)]
    pub(crate) reason: ReasonArgs,
}

impl TransferArgs {
    pub(crate) fn owner(&self) -> String {
        self.owner.as_ref().or(self.owner_option.as_ref()).cloned().unwrap_or_default()
    }
}

#[derive(Debug, Args)]
pub(crate) struct SetCompatibilityArgs {
    /// The name, the namespace, or `*` for the registry
    #[arg(value_name = "KIND/NAME|NAMESPACE|*", value_parser = selector)]
    pub(crate) target: Selector,
    /// none, backward, forward, full or inherit
    ///
    /// `backward_transitive`, `forward_transitive` and `full_transitive` compare with all earlier versions.
    pub(crate) mode: ModeArg,
    #[command(flatten)]
    pub(crate) reason: ReasonArgs,
}

/// Parses a selector. `tool/*` is rejected: it looks like all tools, and is a namespace.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    let selector: Selector = text.parse().map_err(|e: InvalidSelector| e.to_string())?;
    let first = text.split_once('/').map_or("", |(first, _)| first);
    if matches!(selector, Selector::Namespace(_)) && first.parse::<Kind>().is_ok() {
        return Err(format!(
            "a namespace contains names of every kind, so `{text}` would select names with the \
             prefix `{first}/` instead of every {first}; write {first}/NAME for one name, team/* or \
             com.example.* for a namespace, or * for the registry"
        ));
    }
    Ok(selector)
}

/// A compatibility mode; `None` inherits the mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModeArg(pub(crate) Option<Mode>);

impl FromStr for ModeArg {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, InvalidMode> {
        if text == "inherit" { Ok(Self(None)) } else { text.parse().map(|mode| Self(Some(mode))) }
    }
}

/// The message, author and confirmation of a change of settings.
#[derive(Debug, Args)]
pub(crate) struct ReasonArgs {
    /// Commit message
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) message: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}
