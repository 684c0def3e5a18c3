//! The arguments of what changes lifecycles and settings.

use std::str::FromStr;

use clap::Args;
use registry_core::{
    Date, InvalidSelector, Key, Kind, Name, Selector,
    compatibility::{InvalidMode, Mode},
};

use super::{AtArgs, CommitArgs};

#[derive(Debug, Args)]
pub(crate) struct LifecycleArgs {
    /// Which entity
    #[arg(value_name = "KIND/NAME@VERSION")]
    pub(crate) key: Key,
    /// Why
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NoticeArgs {
    #[command(flatten)]
    pub(crate) change: LifecycleArgs,
    /// What to use instead: something registered
    #[arg(long, value_name = "KIND/NAME@VERSION")]
    pub(crate) replacement: Option<Key>,
    /// The day from which nobody should count on it
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) sunset: Option<Date>,
}

#[derive(Debug, Args)]
pub(crate) struct RetireArgs {
    /// The entity; with --with-tools, server/NAME selects all versions
    #[arg(value_name = "KIND/NAME@VERSION")]
    pub(crate) what: Versions,
    /// Retire every tool of the server, too, as one commit, after showing the plan
    #[arg(long, conflicts_with = "replacement")]
    pub(crate) with_tools: bool,
    /// The reason, for the log
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    /// A registered replacement
    #[arg(long, value_name = "KIND/NAME@VERSION")]
    pub(crate) replacement: Option<Key>,
    /// The end of support
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) sunset: Option<Date>,
    /// Retire it although something active depends on it, for this reason, which the log keeps
    #[arg(long, value_name = "REASON")]
    pub(crate) force: Option<String>,
    /// With --with-tools: do not ask
    #[arg(long, short, requires = "with_tools")]
    pub(crate) yes: bool,
    /// With --with-tools: only show what would happen
    #[arg(long, requires = "with_tools")]
    pub(crate) dry_run: bool,
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
            return text.parse::<Key>().map(Self::One).map_err(|e| e.to_string());
        }
        match text.parse() {
            Ok(Selector::Name(kind, name)) => Ok(Self::All(kind, name)),
            _ => Err(format!(
                "`{text}` is not of the form kind/name@version, like server/files@1.2.3"
            )),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RevertArgs {
    /// The revision whose changes are undone
    pub(crate) revision: u64,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The reason, for the log [default: the reverted revision and its message]
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// Which name, of all its versions
    #[arg(value_name = "KIND/NAME", value_parser = selector)]
    pub(crate) on: Selector,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// Which name, or which namespace: tool/fetch, team/*, com.example.*
    #[arg(value_name = "KIND/NAME|NAMESPACE", value_parser = selector)]
    pub(crate) on: Selector,
    /// Who is to own it
    pub(crate) owner: String,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompatibilityArgs {
    /// Of which name, of which namespace, or `*` for everything
    #[arg(value_name = "KIND/NAME|NAMESPACE|*", value_parser = selector)]
    pub(crate) on: Selector,
    /// none, backward, forward, full, each of the last three also with _transitive; or inherit
    pub(crate) mode: WantedMode,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

/// A selector that means what it looks like: `tool/*` is not all tools, but the names that begin so.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    let on: Selector = text.parse().map_err(|e: InvalidSelector| e.to_string())?;
    let first = text.split_once('/').map_or("", |(first, _)| first);
    if matches!(on, Selector::Namespace(_)) && first.parse::<Kind>().is_ok() {
        return Err(format!(
            "a namespace holds names of every kind, so this would be the names that begin with \
             `{first}/`, not every {first}; write {first}/NAME for one, team/* or com.example.* for \
             a namespace, or * for everything"
        ));
    }
    Ok(on)
}

/// A mode of compatibility, or none of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedMode(pub(crate) Option<Mode>);

impl FromStr for WantedMode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, InvalidMode> {
        if text == "inherit" { Ok(Self(None)) } else { text.parse().map(|mode| Self(Some(mode))) }
    }
}

/// Why something is set, and by whom.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Why, for the log
    #[arg(long, short, default_value = "")]
    pub(crate) message: String,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}
