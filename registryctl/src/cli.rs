//! The arguments: what the user can say, with its help.
//!
//! The environment is read here only, by clap.

mod access;
mod apply;
mod at;
mod audit;
mod commit;
mod compose;
mod diff;
mod fleet;
mod gateway;
mod governance;
mod graph;
mod import;
pub(crate) mod live;
mod log;
mod sbom;
mod search;
mod selector;
mod unrepeated;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, builder::FalseyValueParser};
use registry_core::{Kind, LifecycleState};

pub(crate) use access::{AccessArgs, CreateTokenArgs, TokenCommand};
pub(crate) use apply::{ApplyArgs, ApplyGuards, ApplyHow, PruneArgs};
pub(crate) use at::AtArgs;
pub(crate) use audit::{AccessTrailArgs, AuditCommand, CheckArgs, ExportTrailArgs, ProveArgs};
pub(crate) use commit::CommitArgs;
pub(crate) use compose::{ComposeCheckArgs, ComposeCommand, ComposeRunArgs};
pub(crate) use diff::{Compared, DiffArgs};
pub(crate) use fleet::{GatewaysArgs, Percent, RolloutCommand, RolloutStatusArgs, WaitArgs};
pub(crate) use gateway::{GatewayArgs, GatewayCommand, SagasArgs, SagasCommand};
pub(crate) use governance::{
    ArchiveArgs, CompatibilityArgs, LifecycleArgs, NoticeArgs, RetireArgs, RevertArgs,
    SettingsArgs, TransferArgs, Versions, WantedMode, WhyArgs,
};
pub(crate) use graph::{
    ImpactArgs, LockArgs, OutdatedArgs, PathsArgs, PlannedArgs, ResolveArgs, TreeArgs,
};
pub(crate) use import::{
    ImportA2aArgs, ImportArgs, ImportFrom, ImportMcpArgs, ImportMcpServersArgs, ImportRegistryArgs,
    ImportResultArgs, ImportServerJsonArgs, ToolPrefix,
};
pub(crate) use log::{About, BlameArgs, HistoryArgs, LogArgs, ShowArgs, Subject};
pub(crate) use sbom::{Sbom, SbomDiffArgs, SbomExportArgs, SbomSource, WhoHasArgs};
pub(crate) use search::SearchArgs;
pub(crate) use selector::{Entity, Name, VersionPair};
pub(crate) use verify::{LiveTarget, VerifyArgs};

use crate::address::Address;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused by validation, or the answer is no (not found, another base revision); for diff
     --exit-code and sbom diff: something is different
  2  wrong usage: arguments, or files that cannot be read or written
  3  the registry, or the server that is asked, cannot be reached
  4  it failed, or answered what cannot be understood
  5  something would change (--dry-run --exit-code), or is outdated (outdated --exit-code)
  6  too few gateways have applied the revision (--wait)

Files are registry-v2 documents in JSON or YAML. Validation messages point into them by line and
column. A directory stands for all .json, .yaml and .yml files directly in it, in the order of
their names; `-` stands for standard input. However many files: one batch, one commit.";

/// Registers, reads and follows schemas, servers, tools and agents.
#[derive(Debug, Parser)]
#[command(name = "registryctl", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Globals {
    /// Where the registry is: https://HOST:PORT, http://HOST:PORT or HOST:PORT; of several servers of
    /// one registry, with commas between, the first that answers, and the next where one is lost
    #[arg(
        long,
        global = true,
        env = "REGISTRY_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:7070",
        value_delimiter = ',',
        value_parser = unrepeated::unrepeated::<Address>()
    )]
    pub(crate) registry: Vec<Address>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// How long to wait for a connection
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) connect_timeout: u16,
    /// Tables for people, JSON for scripts; `tree`, `why`, `impact` and `compose check` also draw
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Output,
    /// No colours; they are also off where the output is not a terminal
    #[arg(long, global = true, env = "NO_COLOR", value_parser = FalseyValueParser::new())]
    pub(crate) no_color: bool,
}

/// What the user may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For scripts; the field names are stable.
    Json,
    /// A graph for Graphviz.
    Dot,
    /// A graph for Mermaid, as in Markdown.
    Mermaid,
    /// A graph as a picture.
    Svg,
}

/// How results that are no pictures are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

impl Command {
    /// Whether its result is a graph, which can be drawn.
    pub(crate) fn draws(&self) -> bool {
        matches!(self, Self::Tree(_) | Self::Why(_) | Self::Impact(_) | Self::Compose(_))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register what files hold, as one commit, after showing the plan
    Apply(ApplyArgs),
    Import(Box<ImportArgs>),
    /// Compare live servers with what is registered, for CI
    Verify(Box<VerifyArgs>),
    /// Check files without a registry, with the code that the registry itself uses
    Validate(ValidateArgs),
    /// Check compositions and show what they do, or call one and show each step
    #[command(subcommand)]
    Compose(ComposeCommand),
    /// Show one entity
    Get(GetArgs),
    /// List entities
    List(ListArgs),
    /// Find entities by words of their names, descriptions, tags, skills and properties
    Search(SearchArgs),
    /// Show every change of one name and its settings, or of one version of it
    History(HistoryArgs),
    /// List commits, newest first
    Log(LogArgs),
    /// Show one commit
    Show(ShowArgs),
    /// Show the differences between two versions, or between two revisions of the registry
    Diff(DiffArgs),
    /// Show which version introduced each value of a document, who registered it, when and why
    Blame(BlameArgs),
    /// Show what an entity needs, or what needs it, as a tree
    Tree(TreeArgs),
    /// Show the paths by which one entity needs another
    Why(PathsArgs),
    /// Show what would break if an entity were retired, deprecated or replaced; changes nothing
    Impact(ImpactArgs),
    /// Show the exact versions that constraints mean
    Resolve(ResolveArgs),
    /// Write a lock file: exact versions and digests of what a project requires, and of all that
    /// this needs
    Lock(LockArgs),
    /// Show which locked requirements have newer versions, and what an upgrade would change and break
    Outdated(OutdatedArgs),
    /// Say whether a version can take the place of another: compatible, breaking, or undecided
    Compat(CompatArgs),
    /// Write the whole registry as one registry-v2 file
    Export(ExportArgs),
    /// Bills of materials: what something consists of, and what contains it
    #[command(subcommand)]
    Sbom(Sbom),
    /// Prove the log, keep checkpoints of it, export it, and read the trail of tokens
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Follow the registry and print each commit as it is made
    Watch(WatchArgs),
    /// List the gateways that follow the registry or have followed it, and how far each of them is
    Gateways(GatewaysArgs),
    /// Look after one gateway: its targets, its configuration, its tools' contracts
    Gateway(Box<GatewayArgs>),
    /// How far a revision has come among the gateways
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Mark an entity as deprecated: usable, but nobody should begin to depend on it
    Deprecate(NoticeArgs),
    /// Mark an entity as retired: new dependencies on it are refused
    Retire(RetireArgs),
    /// Make a deprecated or retired entity active again
    Restore(LifecycleArgs),
    /// Undo the changes of one revision in a new commit, after showing the plan
    Revert(RevertArgs),
    /// Take no new versions of a name
    Archive(ArchiveArgs),
    /// Take new versions of an archived name again
    Unarchive(ArchiveArgs),
    /// Give a name or a namespace to another owner
    Transfer(TransferArgs),
    /// Set how compatible new versions have to be with earlier ones
    Compatibility(CompatibilityArgs),
    /// List what is set about names, namespaces and everything
    Settings(SettingsArgs),
    /// Make, list and end API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show who you are to the registry, and what you may do
    Whoami,
    /// Print a script that completes commands and options for a shell
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// A file, a directory or `-`; may be given several times
    #[arg(long = "file", short, value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What is registered already: a file that `export` wrote, or any valid registry-v2 file
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) entity: Entity,
    /// Print the canonical document (RFC 8785), byte for byte what the digest covers
    #[arg(long)]
    pub(crate) document: bool,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this kind: schema, server, tool or agent
    pub(crate) kind: Option<Kind>,
    /// The same, as the other commands take it
    #[arg(long = "kind", value_name = "KIND", conflicts_with = "kind")]
    pub(crate) kind_option: Option<Kind>,
    /// Only this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only names that begin so
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Only this state: active, deprecated or retired; may be given several times
    #[arg(long, value_name = "STATE")]
    pub(crate) lifecycle: Vec<LifecycleState>,
    /// Only what this owner owns
    #[arg(long)]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompatArgs {
    #[command(flatten)]
    pub(crate) versions: VersionPair,
    /// Whom the change must not break: users of the old version (backward), of the new one who
    /// meet the old (forward), or both (full)
    #[arg(long, value_enum, default_value = "backward")]
    pub(crate) direction: Direction,
    /// Look into this file, or these, before asking the registry; may be given several times
    #[arg(long = "file", short, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

/// In which direction versions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// What worked with the old version works with the new one.
    Backward,
    /// What works with the new version worked with the old one.
    Forward,
    /// Both.
    Full,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write to this file instead of standard output; it is replaced only when all is there
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Leave out what proves the copy (registry, revision, digests), for a file to edit by hand
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// First print the commits after this revision
    #[arg(long, value_name = "REVISION")]
    pub(crate) since: Option<u64>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_entity_is_named_in_either_way() {
        let key = |arguments: &[&str]| {
            let all = ["registryctl", "get"].iter().chain(arguments);
            let parsed = Arguments::try_parse_from(all).ok()?;
            let Command::Get(get) = parsed.command else { return None };
            get.entity.key().ok().map(|key| key.to_string())
        };
        assert_eq!(key(&["tools", "fetch", "1.0.0"]).unwrap(), "tool/fetch@1.0.0");
        assert_eq!(key(&["agent/team/fetch@1.0.0"]).unwrap(), "agent/team/fetch@1.0.0");
        assert_eq!(key(&["tool", "fetch"]), None);
        assert_eq!(key(&[]), None);
    }
}
