//! The commands, one a file, and what each of them gets to work with.

mod apply;
mod audit;
mod blame;
mod commit;
mod compat;
mod completions;
mod compose;
mod diff;
mod export;
mod gateway;
mod gateways;
mod get;
mod history;
mod impact;
mod import;
mod lifecycle;
mod list;
mod lock;
mod locked;
mod log;
mod outdated;
mod resolve;
mod revert;
mod review;
mod rollout;
mod sbom;
mod search;
mod settings;
mod token;
mod tree;
mod validate;
mod verify;
mod watch;
mod why;

use std::io::{self, Write as _};

use serde_json::json;

use crate::{
    cli::{Arguments, Command, Format, Globals, Output, RolloutCommand},
    client::Client,
    failure::Failure,
    picture::Picture,
    report::Report,
    screen::Screen,
};

/// What a command works with.
pub(crate) struct Session {
    globals: Globals,
    screen: Screen,
}

impl Session {
    async fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.globals).await
    }
}

/// Runs the command that the arguments name.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { globals, command } = arguments;
    let session = Session { screen: Screen::new(&globals), globals };
    let session = &session;
    let drawn = !matches!(session.globals.output, Output::Table | Output::Json);
    if drawn && !command.draws() {
        let message =
            "only tree, why, impact and compose check draw a graph; use --output table or json";
        return Err(Failure::Usage(message.to_owned()));
    }
    match command {
        Command::Apply(args) => apply::run(session, args).await,
        Command::Import(args) => import::run(session, *args).await,
        Command::Verify(args) => verify::run(session, *args).await,
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
        Command::Compat(args) => compat::run(session, &args).await,
        Command::Export(args) => export::run(session, &args).await,
        Command::Sbom(command) => sbom::run(session, command).await,
        Command::Audit(command) => audit::run(session, command).await,
        Command::Watch(args) => watch::run(session, &args).await,
        Command::Gateways(args) => gateways::run(session, args).await,
        Command::Gateway(args) => gateway::run(session, *args).await,
        Command::Rollout(RolloutCommand::Status(args)) => rollout::run(session, args).await,
        Command::Deprecate(args) => lifecycle::deprecate(session, args).await,
        Command::Retire(args) => lifecycle::retire(session, args).await,
        Command::Restore(args) => lifecycle::restore(session, args).await,
        Command::Revert(args) => revert::run(session, args).await,
        Command::Archive(args) => settings::archive(session, args, true).await,
        Command::Unarchive(args) => settings::archive(session, args, false).await,
        Command::Transfer(args) => settings::transfer(session, args).await,
        Command::Compatibility(args) => settings::compatibility(session, args).await,
        Command::Settings(args) => settings::list(session, &args).await,
        Command::Token(command) => token::run(session, command).await,
        Command::Whoami => token::who_am_i(session).await,
        Command::Completions { shell } => completions::run(session, shell),
    }
}

/// Above this Mermaid shows an error instead, unless the site that shows it says other (`maxEdges`).
const MERMAID_ARROWS: usize = 500;

/// Writes a picture in the form that the user asked for.
fn draw(session: &Session, picture: &Picture) -> Result<(), Failure> {
    let arrows = picture.arrows();
    if matches!(session.globals.output, Output::Mermaid) && arrows > MERMAID_ARROWS {
        eprintln!(
            "note: Mermaid refuses more than {MERMAID_ARROWS} arrows unless its site allows more \
             (maxEdges), and these are {arrows}; --output svg or dot draws them"
        );
    }
    session.screen.bytes(picture.write(session.globals.output).as_bytes())
}

/// Shows findings to people; scripts get them as part of a result.
fn show_findings(screen: Screen, report: &Report) {
    // When standard error is gone, the exit code has to do.
    let _ = io::stderr().write_all(report.render(screen.errors).as_bytes());
}

/// Refuses a batch in which there are errors, and shows them.
fn refuse_errors(screen: Screen, report: &Report) -> Result<(), Failure> {
    if report.has_errors() { Err(refused(screen, report)) } else { Ok(()) }
}

/// Shows why the registry refuses a batch, and gives the failure that says so.
fn refused(screen: Screen, report: &Report) -> Failure {
    let summary = format!("refused: {}; nothing was changed", report.counts());
    rejected(screen, report, summary)
}

/// Shows findings with which a command ends, and gives the failure that sums them up.
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
