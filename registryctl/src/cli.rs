//! The command line arguments and their help. Only clap reads the environment.

mod access;
mod apply;
mod approvals;
mod as_of;
mod audit;
mod budget;
mod commit;
mod compose;
mod diff;
mod drift;
mod fleet;
mod gateway;
mod governance;
mod graph;
mod help;
mod import;
mod inspect;
pub(crate) mod live;
mod log;
mod policy;
mod redacted;
mod sbom;
mod schema;
mod search;
mod selector;
mod trace;
mod usage;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use registry_core::{Kind, LifecycleState};

pub(crate) use access::{AccessArgs, CreateTokenArgs, RevokeTokenArgs, TokenCommand};
pub(crate) use apply::{ApplyArgs, ApplyOptions, ApplyPolicy, ConfirmArgs, PruneArgs};
pub(crate) use approvals::{
    ApprovalsCommand, ApproveArgs, CancelApprovalsArgs, DenyArgs, ListApprovalsArgs,
    RevokeGrantsArgs,
};
pub(crate) use as_of::AsOfArgs;
pub(crate) use audit::{AccessLogArgs, AuditCommand, CheckArgs, ExportLogArgs, ProveArgs};
pub(crate) use budget::{
    AdjustBudgetArgs, BudgetArg, BudgetCommand, ListBudgetsArgs, ReclaimBudgetArgs, ShowBudgetArgs,
};
pub(crate) use commit::CommitArgs;
pub(crate) use compose::{ComposeCheckArgs, ComposeCommand, ComposeRunArgs};
pub(crate) use diff::{DiffArgs, DiffOperands};
pub(crate) use drift::{DriftArgs, LiveTarget};
pub(crate) use fleet::{
    FleetCommand, FleetListArgs, Percent, RolloutCommand, RolloutStatusArgs, WaitArgs,
};
pub(crate) use gateway::{
    AcceptArgs, ChangeTargetArgs, GatewayApprovalsArgs, GatewayApprovalsCommand,
    GatewayApproveArgs, GatewayArgs, GatewayCommand, GatewayDenyArgs, SagasArgs, SagasCommand,
};
pub(crate) use governance::{
    ArchiveArgs, DeprecateArgs, LifecycleArgs, ModeArg, ReasonArgs, RestoreArgs, RetireArgs,
    RevertArgs, SetCompatibilityArgs, SettingsArgs, TransferArgs, Transferred, Versions,
};
pub(crate) use graph::{
    ImpactArgs, LockArgs, OutdatedArgs, PathsArgs, PlannedArgs, ResolveArgs, TreeArgs,
};
pub(crate) use import::{
    ImportA2aArgs, ImportArgs, ImportFrom, ImportMcpArgs, ImportMcpServersArgs, ImportRegistryArgs,
    ImportResultArgs, ImportServerJsonArgs, ProgramEnvironment, ToolPrefix,
};
pub(crate) use inspect::InspectArgs;
pub(crate) use log::{BlameArgs, CommitFilter, EntityFilter, HistoryArgs, LogArgs, ShowArgs};
pub(crate) use policy::{
    CatalogArgs, ExplainArgs, FactsArgs, METHODS, PolicyCommand, RollbackArgs, SimulateArgs,
    StopArgs, StopSelector, TestArgs, WhoCanCallArgs,
};
pub(crate) use sbom::{SbomCommand, SbomDiffArgs, SbomExportArgs, SbomSource, WhereUsedArgs};
pub(crate) use schema::SchemaArgs;
pub(crate) use search::SearchArgs;
pub(crate) use selector::{EntityArg, NameArg, VersionPair, parse_kind};
pub(crate) use trace::TraceArgs;
pub(crate) use usage::{UsageArgs, UsageColumn};

use crate::address::Addresses;

const CONNECTION: &str = "Connection";
const CREDENTIALS: &str = "Credentials";
const OUTPUT: &str = "Output";

/// Parses the arguments of the process. Help, a usage error and `--version` end the process.
pub(crate) fn parse() -> Arguments {
    command_line::parse(help::command())
}

/// The command line of the registry: register, read and follow tools, agents and policies
#[derive(Debug, Parser)]
#[command(name = "registryctl", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command. `-h` of a command omits them.
#[derive(Debug, Args)]
pub(crate) struct Globals {
    /// URL of the registry: https://HOST:PORT, http://HOST:PORT or HOST:PORT
    ///
    /// Several servers of one registry are separated by commas, such as https://a:7070,b:7070. The
    /// scheme of the first address is that of all. The first server that answers is used, and the next
    /// one after a connection is lost.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CONNECTION,
        env = "REGISTRY_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:7070",
        overrides_with = "registry",
        value_parser = redacted::redacted::<Addresses>()
    )]
    pub(crate) registry: Addresses,
    /// Timeout of connecting, also of the TLS handshake
    ///
    /// With several servers, also of the first answer of each. A server that hangs later is left after
    /// three times as long.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = CONNECTION,
        value_name = "SECONDS",
        default_value_t = 5
    )]
    pub(crate) connect_timeout: u16,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Output format; `tree`, `why`, `impact` and `compose check` also draw graphs
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = OUTPUT,
        value_enum,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: Output,
    /// Disable colors; they are also disabled for `NO_COLOR`, `TERM=dumb` and output to a file
    #[arg(long, global = true, hide_short_help = true, help_heading = OUTPUT)]
    no_color: bool,
    // The parser suggests similar options, also hidden ones. No typo is similar to these names.
    #[arg(long = "env-NO_COLOR", global = true, env = "NO_COLOR", hide = true, default_value = "")]
    env_no_color: String,
    #[arg(long = "env-TERM", global = true, env = "TERM", hide = true, default_value = "")]
    env_term: String,
}

impl Globals {
    /// Whether colors and progress bars are disabled. Any value of `NO_COLOR` counts
    /// (<https://no-color.org>).
    pub(crate) fn is_plain(&self) -> bool {
        self.no_color || !self.env_no_color.is_empty() || self.env_term == "dumb"
    }
}

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables for people
    Table,
    /// JSON for scripts, with stable field names
    Json,
    /// A graph for Graphviz
    Dot,
    /// A graph for Mermaid, for example in Markdown
    Mermaid,
    /// A graph as an image
    Svg,
}

/// The format of results other than graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    Json,
}

impl Command {
    /// Whether the result is a graph, which can be drawn.
    pub(crate) fn draws(&self) -> bool {
        matches!(self, Self::Tree(_) | Self::Why(_) | Self::Impact(_) | Self::Compose(_))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register the contents of files as one commit
    Apply(ApplyArgs),
    /// Convert existing definitions into registry files
    Import(Box<ImportArgs>),
    /// Compare live servers and agents with their registered definitions
    Drift(Box<DriftArgs>),
    /// Check files offline, with the rules of the registry
    Validate(ValidateArgs),
    /// Check compositions, or run one step by step
    #[command(subcommand)]
    Compose(ComposeCommand),
    /// Show one entity
    Get(GetArgs),
    /// List entities
    List(ListArgs),
    /// Search entities by name, description, tag, skill and property
    Search(SearchArgs),
    /// Show every change of one name, or of one version
    History(HistoryArgs),
    /// List commits, newest first
    Log(LogArgs),
    /// Show one commit
    Show(ShowArgs),
    /// Compare two versions, or two revisions of the registry
    Diff(DiffArgs),
    /// Show the version, author and commit that introduced each value of a document
    Blame(BlameArgs),
    /// Show the dependencies or dependents of an entity as a tree
    Tree(TreeArgs),
    /// Show the dependency paths between two entities
    Why(PathsArgs),
    /// Show the dependents that a change would break
    Impact(ImpactArgs),
    /// Resolve version constraints to exact versions
    Resolve(ResolveArgs),
    /// Write a lock file with exact versions and digests
    Lock(LockArgs),
    /// Show locked requirements with newer versions, and the effects of upgrades
    Outdated(OutdatedArgs),
    /// Check the compatibility of two versions, or set the required compatibility
    #[command(subcommand)]
    Compatibility(CompatibilityCommand),
    /// Write the whole registry as one registry-v2 file
    Export(ExportArgs),
    /// Export, compare and search software bills of materials
    #[command(subcommand)]
    Sbom(SbomCommand),
    /// Verify, prove and export the commit log and the access log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Print new commits continuously
    Watch(WatchArgs),
    /// Inspect the gateways that follow the registry
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Administer one gateway: targets, configuration, contracts, sagas
    Gateway(Box<GatewayArgs>),
    /// Show how many gateways have applied a revision
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Deprecate an entity: it stays usable, and new dependencies get a warning
    Deprecate(DeprecateArgs),
    /// Retire an entity: new dependencies are rejected
    Retire(RetireArgs),
    /// Make a deprecated or retired entity active again
    Restore(RestoreArgs),
    /// Undo the changes of one revision in a new commit
    Revert(RevertArgs),
    /// Reject new versions of a name
    Archive(ArchiveArgs),
    /// Accept new versions of an archived name again
    Unarchive(ArchiveArgs),
    /// Change the owner of names and namespaces
    Transfer(TransferArgs),
    /// Explain, test, simulate and roll back policies, and forbid calls in an emergency
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Show the agents that declare a tool, and whether policies deny their calls
    WhoCanCall(WhoCanCallArgs),
    /// Show the spending of budgets, change limits, and reclaim the rights of lost gateways
    #[command(subcommand)]
    Budget(BudgetCommand),
    /// List and decide requests for approvals of calls, and end standing grants
    #[command(subcommand, visible_alias = "proposals")]
    Approvals(ApprovalsCommand),
    /// Allow calls that wait for an approval; short for `approvals approve`
    Approve(ApproveArgs),
    /// Show calls, costs, durations and sizes by agent, tool and other properties
    Usage(UsageArgs),
    /// Show the AIO calls of a trace at all gateways
    Trace(TraceArgs),
    /// Find credentials and personal data in a file
    Inspect(InspectArgs),
    /// List the settings of names, namespaces and the registry
    Settings(SettingsArgs),
    /// Create, list and revoke API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show the authenticated caller and its permissions
    Whoami,
    /// Print the JSON Schema of a kind of files, for editors
    Schema(SchemaArgs),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Files of registry-v2 documents, as arguments or with `--file`.
#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Files, directories or `-` for standard input
    ///
    /// Files are JSON or YAML. A directory contributes its .json, .yaml and .yml files in the order
    /// of their names, without subdirectories. All files together are one batch.
    #[arg(value_name = "FILE|DIR", required_unless_present = "file_options")]
    files: Vec<PathBuf>,
    /// The same as the arguments; may be repeated
    #[arg(long = "file", short, value_name = "FILE|DIR")]
    file_options: Vec<PathBuf>,
}

impl FilesArgs {
    /// All names: the arguments, then the options.
    pub(crate) fn names(&self) -> Vec<PathBuf> {
        self.files.iter().chain(&self.file_options).cloned().collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    /// The registered entities: a file of `export`, or any valid registry-v2 file
    ///
    /// Without it, only the given files count: selectors of policies about other entities are
    /// reported as `policy-selector-unmatched`.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// KIND/NAME[@VERSION], or KIND NAME [VERSION]; without a version: the newest one
    #[command(flatten)]
    pub(crate) name: NameArg,
    /// Print the canonical document (RFC 8785), which the digest covers
    #[arg(long)]
    pub(crate) document: bool,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this kind: schema, server, tool, agent or policy
    #[arg(value_parser = parse_kind)]
    pub(crate) kind: Option<Kind>,
    /// The same as the argument
    #[arg(long = "kind", value_name = "KIND", conflicts_with = "kind", value_parser = parse_kind)]
    pub(crate) kind_option: Option<Kind>,
    /// Only this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only names with this prefix
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Only this state: active, deprecated or retired; may be repeated
    #[arg(long, value_name = "STATE")]
    pub(crate) lifecycle: Vec<LifecycleState>,
    /// Only entities of this owner
    #[arg(long)]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

/// Compatibility of versions.
#[derive(Debug, Subcommand)]
pub(crate) enum CompatibilityCommand {
    /// Check whether one version can replace another: compatible, breaking or undecided
    Check(CheckCompatibilityArgs),
    /// Set the compatibility that new versions must have with earlier ones
    Set(SetCompatibilityArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckCompatibilityArgs {
    #[command(flatten)]
    pub(crate) versions: VersionPair,
    /// Direction of the check: backward, forward or full
    #[arg(long, value_enum, default_value = "backward", hide_possible_values = true)]
    pub(crate) direction: Direction,
    /// Read versions from these files before the registry; may be repeated
    #[arg(long = "file", short, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

/// A direction of compatibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// Users of the old version can use the new one
    Backward,
    /// Users of the new version can use the old one
    Forward,
    /// Both
    Full,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write to this file instead of standard output
    ///
    /// The file is replaced only after the complete export was received.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Omit registry, revision and digests, for a file to edit by hand
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Print the existing commits after this revision first
    #[arg(long, value_name = "REVISION", value_parser = log::parse_revision)]
    pub(crate) since: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_arguments_have_two_forms() {
        let key = |arguments: &[&str]| {
            let all = ["registryctl", "tree"].iter().chain(arguments);
            let parsed = Arguments::try_parse_from(all).ok()?;
            let Command::Tree(tree) = parsed.command else { return None };
            tree.entity.key().ok().map(|key| key.to_string())
        };
        assert_eq!(key(&["tools", "fetch", "1.0.0"]).unwrap(), "tool/fetch@1.0.0");
        assert_eq!(key(&["agent/team/fetch@1.0.0"]).unwrap(), "agent/team/fetch@1.0.0");
        assert_eq!(key(&["tool", "fetch"]), None);
        assert_eq!(key(&[]), None);
    }

    #[test]
    fn no_color_and_dumb_terminals_disable_colors() {
        for (term, no_color, expected) in
            [("xterm", "", false), ("dumb", "", true), ("xterm", "0", true)]
        {
            let arguments =
                ["registryctl", "--env-TERM", term, "--env-NO_COLOR", no_color, "whoami"];
            let parsed = Arguments::try_parse_from(arguments).unwrap();
            assert_eq!(parsed.globals.is_plain(), expected, "{term} {no_color}");
        }
    }
}
