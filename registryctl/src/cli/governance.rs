//! The arguments of commands that change lifecycles and settings.

use std::str::FromStr;

use clap::Args;
use registry_core::{
    Date, InvalidSelector, Key, Kind, Name, Selector,
    compatibility::{InvalidMode, Mode},
};

use super::{AsOfArgs, CommitArgs, ConfirmArgs, log::parse_revision, selector::parse_key};
use crate::failure::Failure;

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
#[command(after_help = "\
Examples:
  registryctl transfer tool/fetch tool/search web-team
  registryctl transfer 'web/*' web-team
  registryctl transfer --from anonymous web-team")]
pub(crate) struct TransferArgs {
    /// Names (tool/fetch) or namespaces (team/*, com.example.*), then the new owner
    #[arg(value_name = "NAME", required_unless_present = "owner")]
    names: Vec<String>,
    /// The new owner, instead of the last argument
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Transfer every name and namespace of this owner
    #[arg(long, value_name = "OWNER")]
    from: Option<String>,
    #[command(flatten)]
    pub(crate) reason: ReasonArgs,
}

/// What `transfer` changes.
#[derive(Debug)]
pub(crate) enum Transferred {
    Targets(Vec<Selector>),
    /// Everything that this owner owns.
    AllOf(String),
}

impl TransferArgs {
    /// The transferred names and their new owner.
    pub(crate) fn plan(&self) -> Result<(Transferred, String), Failure> {
        let (owner, names) = match (&self.owner, self.names.split_last()) {
            (Some(owner), _) => (owner, &self.names[..]),
            // The last of several names is no owner: a forgotten owner must not give names away.
            (None, Some((owner, names))) if owner.parse::<Selector>().is_err() => (owner, names),
            (None, _) => {
                let message = "the new owner is missing; write it after the names, or with --owner";
                return Err(Failure::Usage(message.to_owned()));
            }
        };
        let transferred = match &self.from {
            Some(from) if names.is_empty() => Transferred::AllOf(from.clone()),
            Some(_) => {
                let message = "--from selects every name of an owner; omit the names, or --from";
                return Err(Failure::Usage(message.to_owned()));
            }
            None if names.is_empty() => {
                let message = "the names are missing; write them before the owner, such as \
                               tool/fetch, or select the names of an owner with --from";
                return Err(Failure::Usage(message.to_owned()));
            }
            None => {
                let targets = names.iter().map(|name| selector(name)).collect::<Result<_, _>>();
                Transferred::Targets(targets.map_err(Failure::Usage)?)
            }
        };
        Ok((transferred, owner.clone()))
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Arguments, Command};

    /// The targets and the new owner of `transfer`, or the error.
    fn transfer(arguments: &str) -> String {
        let all = ["registryctl", "transfer"].into_iter().chain(arguments.split_whitespace());
        let parsed = match Arguments::try_parse_from(all) {
            Ok(parsed) => parsed,
            Err(error) => return error.kind().to_string(),
        };
        let Command::Transfer(args) = parsed.command else { return "another command".to_owned() };
        match args.plan() {
            Ok((Transferred::Targets(targets), owner)) => {
                let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
                format!("{} to {owner}", targets.join(", "))
            }
            Ok((Transferred::AllOf(from), owner)) => format!("all of {from} to {owner}"),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn transfer_accepts_several_names() {
        for (arguments, expected) in [
            ("tool/a web", "tool/a to web"),
            ("tool/a --owner web", "tool/a to web"),
            ("tool/a team/* com.x.* web", "tool/a, team/*, com.x.* to web"),
            ("tool/a tool/b --owner web", "tool/a, tool/b to web"),
            ("--from anonymous web", "all of anonymous to web"),
            ("--from anonymous --owner web", "all of anonymous to web"),
        ] {
            assert_eq!(transfer(arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn incomplete_transfers_are_rejected() {
        for (arguments, expected) in [
            ("tool/a", "the new owner is missing"),
            ("tool/a tool/b", "the new owner is missing"),
            ("web", "the names are missing"),
            ("--owner web", "the names are missing"),
            ("tool/* web", "a namespace contains names of every kind"),
            ("--from docs tool/a web", "omit the names, or --from"),
            ("", "required arguments"),
        ] {
            let error = transfer(arguments);
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }
}
