//! The commands, one per file.

mod apply;
mod approvals;
mod audit;
mod blame;
mod budget;
mod commit;
mod compatibility;
mod completions;
mod compose;
mod diff;
mod drift;
mod export;
mod fleet;
mod gateway;
mod get;
mod history;
mod impact;
mod import;
mod inspect;
mod lifecycle;
mod list;
mod lock;
mod locked;
mod log;
mod missing;
mod outdated;
mod policy;
mod resolve;
mod revert;
mod review;
mod rollout;
mod sbom;
mod schema;
mod search;
mod settings;
mod token;
mod trace;
mod tree;
mod usage;
mod validate;
mod watch;
mod who_can_call;
mod why;

use std::io::{self, Write as _};

use serde_json::json;

use crate::{
    cli::{
        Arguments, Command, CompatibilityCommand, FleetCommand, Format, Globals, Output,
        RolloutCommand,
    },
    client::Client,
    diagram::Diagram,
    failure::Failure,
    report::Report,
    screen::Screen,
};

/// The context of a command.
pub(crate) struct Session {
    globals: Globals,
    screen: Screen,
}

impl Session {
    async fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.globals).await
    }
}

/// Runs a command. A failure includes the likely cause of a failed connection or authentication.
pub(crate) async fn run(Arguments { globals, command }: Arguments) -> Result<(), Failure> {
    let session = Session { screen: Screen::new(&globals), globals };
    match Box::pin(dispatch(&session, command)).await {
        Ok(()) => Ok(()),
        Err(failure) => Err(failure.explained().await),
    }
}

async fn dispatch(session: &Session, command: Command) -> Result<(), Failure> {
    let is_graph = !matches!(session.globals.output, Output::Table | Output::Json);
    if is_graph && !command.draws() {
        let message =
            "only tree, why, impact and compose check draw graphs; use --output table or json";
        return Err(Failure::Usage(message.to_owned()));
    }
    match command {
        Command::Apply(args) => apply::run(session, args).await,
        Command::Import(args) => import::run(session, *args).await,
        Command::Drift(args) => drift::run(session, *args).await,
        Command::Validate(args) => validate::run(session, &args),
        Command::Compose(command) => compose::run(session, &command).await,
        Command::Get(args) => get::run(session, &args).await,
        Command::List(args) => list::run(session, args).await,
        Command::Search(args) => search::run(session, args).await,
        Command::History(args) => history::run(session, &args).await,
        Command::Log(args) => log::run(session, &args).await,
        Command::Show(args) => log::show(session, &args).await,
        Command::Diff(args) => diff::run(session, args).await,
        Command::Blame(args) => blame::run(session, &args).await,
        Command::Tree(args) => tree::run(session, &args).await,
        Command::Why(args) => why::run(session, &args).await,
        Command::Impact(args) => impact::run(session, &args).await,
        Command::Resolve(args) => resolve::run(session, &args).await,
        Command::Lock(args) => lock::run(session, &args).await,
        Command::Outdated(args) => outdated::run(session, &args).await,
        Command::Compatibility(CompatibilityCommand::Check(args)) => {
            compatibility::run(session, &args).await
        }
        Command::Compatibility(CompatibilityCommand::Set(args)) => {
            settings::set_compatibility(session, args).await
        }
        Command::Export(args) => export::run(session, &args).await,
        Command::Sbom(command) => sbom::run(session, command).await,
        Command::Audit(command) => audit::run(session, command).await,
        Command::Watch(args) => watch::run(session, &args).await,
        Command::Fleet(FleetCommand::List(args)) => fleet::run(session, args).await,
        Command::Gateway(args) => gateway::run(session, *args).await,
        Command::Rollout(RolloutCommand::Status(args)) => rollout::run(session, args).await,
        Command::Deprecate(args) => lifecycle::deprecate(session, args).await,
        Command::Retire(args) => lifecycle::retire(session, args).await,
        Command::Restore(args) => lifecycle::restore(session, args).await,
        Command::Revert(args) => Box::pin(revert::run(session, args)).await,
        Command::Archive(args) => settings::archive(session, args, true).await,
        Command::Unarchive(args) => settings::archive(session, args, false).await,
        Command::Transfer(args) => settings::transfer(session, args).await,
        Command::Policy(command) => policy::run(session, command).await,
        Command::WhoCanCall(args) => who_can_call::run(session, &args).await,
        Command::Budget(command) => budget::run(session, command).await,
        Command::Approvals(command) => approvals::run(session, command).await,
        Command::Approve(args) => approvals::approve(session, args).await,
        Command::Usage(args) => usage::run(session, args).await,
        Command::Trace(args) => trace::run(session, args).await,
        Command::Inspect(args) => inspect::run(session, &args),
        Command::Settings(args) => settings::list(session, &args).await,
        Command::Token(command) => token::run(session, command).await,
        Command::Whoami => token::who_am_i(session).await,
        Command::Schema(args) => schema::run(session, &args),
        Command::Completions { shell } => completions::run(session, shell),
    }
}

/// The default limit of Mermaid (`maxEdges`).
const MERMAID_EDGES: usize = 500;

/// Writes a diagram in the requested format.
fn draw(session: &Session, diagram: &Diagram) -> Result<(), Failure> {
    let edges = diagram.edge_count();
    if matches!(session.globals.output, Output::Mermaid) && edges > MERMAID_EDGES {
        eprintln!(
            "note: the diagram has {edges} edges, and Mermaid rejects more than {MERMAID_EDGES} \
             unless `maxEdges` is raised; use --output svg or dot"
        );
    }
    session.screen.bytes(diagram.write(session.globals.output).as_bytes())
}

/// Prints findings on standard error. JSON results contain them instead.
fn show_findings(screen: Screen, report: &Report) {
    // If standard error is closed, only the exit code remains.
    let _ = io::stderr().write_all(report.render(screen.errors).as_bytes());
}

/// Rejects a batch with errors, and prints them.
fn reject_errors(screen: Screen, report: &Report) -> Result<(), Failure> {
    if report.has_errors() { Err(rejected_batch(screen, report)) } else { Ok(()) }
}

/// Prints the findings of a rejected batch, and returns the failure.
fn rejected_batch(screen: Screen, report: &Report) -> Failure {
    let summary = format!("rejected: {}; nothing was changed", report.counts());
    rejected(screen, report, summary)
}

/// Prints findings, and returns the failure that summarizes them.
fn rejected(screen: Screen, report: &Report, summary: String) -> Failure {
    match screen.format {
        Format::Table => show_findings(screen, report),
        Format::Json => {
            let shown = json!({ "accepted": false, "diagnostics": report.findings() });
            if let Err(failure) = screen.json(&shown) {
                return failure;
            }
        }
    }
    Failure::Rejected(summary)
}
