//! `gateway`: administration of one gateway over its admin address.

mod admin;
mod approvals;
mod sagas;

use serde_json::{Value, json};

use self::admin::Admin;
use super::{Session, review::confirm_action};
use crate::{
    cli::{AcceptArgs, ChangeTargetArgs, Format, GatewayArgs, GatewayCommand},
    failure::Failure,
    screen::TextTable,
    style::Paint,
};

pub(super) async fn run(session: &Session, args: GatewayArgs) -> Result<(), Failure> {
    let admin = Admin::new(&args, &session.globals.access)?;
    let post = async |action: &str, server: &str, done: &str| {
        admin.post(&format!("targets/{action}"), &json!({ "server": server })).await?;
        session.screen.line(&format!("{server} {done}"))
    };
    let is_confirmed = |action: String, confirm| {
        confirm_action(session.screen, &format!("{action} at {}", args.admin), confirm)
    };
    match &args.command {
        GatewayCommand::Targets => targets(session, &admin).await,
        GatewayCommand::Check(target) => post("check", &target.server, "is probed").await,
        GatewayCommand::Health(target) => health(session, &admin, &target.server).await,
        GatewayCommand::Stop(ChangeTargetArgs { target, confirm }) => {
            if is_confirmed(format!("stop sending calls to {}", target.server), *confirm)? {
                post("stop", &target.server, "is stopped").await?;
            }
            Ok(())
        }
        GatewayCommand::Start(ChangeTargetArgs { target, confirm }) => {
            if is_confirmed(format!("send calls to {} again", target.server), *confirm)? {
                post("start", &target.server, "is started").await?;
            }
            Ok(())
        }
        GatewayCommand::Reload(confirm) => {
            if is_confirmed("reload the configuration file of the gateway".to_owned(), *confirm)? {
                reload(session, &admin).await?;
            }
            Ok(())
        }
        GatewayCommand::Contracts => contracts(session, &admin).await,
        GatewayCommand::Accept(AcceptArgs { tool, live, confirm }) => {
            if is_confirmed(format!("accept the live definition {live} of {tool}"), *confirm)? {
                admin.post("contracts/accept", &json!({ "tool": tool, "live": live })).await?;
                session.screen.line(&format!("the live definition of {tool} is accepted"))?;
            }
            Ok(())
        }
        GatewayCommand::Sagas(args) => sagas::run(session, &admin, args).await,
        GatewayCommand::Approvals(args) => approvals::run(session, &admin, args).await,
    }
}

async fn targets(session: &Session, admin: &Admin) -> Result<(), Failure> {
    let answer = admin.get("targets").await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&answer["targets"]);
    }
    show(session, admin::list(&answer, "targets"))
}

/// Prints the state of a target. Fails unless it is up.
async fn health(session: &Session, admin: &Admin, server: &str) -> Result<(), Failure> {
    let target = admin.post("targets/health", &json!({ "server": server })).await?;
    if session.screen.format == Format::Json {
        session.screen.json(&target)?;
    } else {
        show(session, std::slice::from_ref(&target))?;
    }
    if target["healthy"] == true {
        return Ok(());
    }
    let code = Some(admin::text(&target["code"])).filter(|code| !code.is_empty());
    let reason = code.unwrap_or_else(|| admin::text(&target["state"]));
    Err(Failure::Rejected(format!("{server} is not healthy: {reason}")))
}

fn show(session: &Session, targets: &[Value]) -> Result<(), Failure> {
    let mut table =
        TextTable::new(&["SERVER", "STATE", "ERA", "RUNNING", "WAITING", "DOWN FOR", "ERROR"]);
    for target in targets {
        let since = target["downSeconds"].as_u64().map(|seconds| format!("{seconds} s"));
        let circuit = if target["circuitOpen"] == true { "up, circuit open" } else { "" };
        let state = match admin::text(&target["state"]) {
            state if state == "up" && !circuit.is_empty() => circuit.to_owned(),
            state => state,
        };
        let paint = match state.as_str() {
            "up" => None,
            "down" => Some(Paint::Bad),
            "stopped" => Some(Paint::Dim),
            _ => Some(Paint::Careful),
        };
        let cells = [
            admin::text(&target["server"]),
            state,
            admin::text(&target["era"]),
            admin::text(&target["running"]),
            admin::text(&target["queued"]),
            since.unwrap_or_default(),
            admin::text(&target["error"]),
        ];
        match paint {
            Some(paint) => table.painted(paint, cells),
            None => table.row(cells),
        }
    }
    session.screen.table(&table)
}

async fn reload(session: &Session, admin: &Admin) -> Result<(), Failure> {
    let answer = admin.post("reload", &json!({})).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&answer);
    }
    session.screen.line("the gateway has reloaded its configuration file")?;
    for setting in admin::list(&answer, "needsRestart") {
        let line = format!("restart required: `{}` has changed", admin::text(setting));
        session.screen.line(&session.screen.style.paint(Paint::Careful, line))?;
    }
    Ok(())
}

async fn contracts(session: &Session, admin: &Admin) -> Result<(), Failure> {
    let answer = admin.get("contracts").await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&answer);
    }
    let states = answer["states"].as_object().into_iter().flatten();
    let states: Vec<_> =
        states.map(|(state, count)| format!("{} {state}", admin::text(count))).collect();
    session.screen.line(&format!("tools: {}", states.join(", ")))?;
    let mut table = TextTable::new(&["TOOL", "STATE", "QUARANTINED", "DIFFERS IN", "LIVE"]);
    for tool in admin::list(&answer, "tools") {
        let is_quarantined = tool["quarantined"] == true;
        let parts: Vec<_> = admin::list(tool, "drift")
            .iter()
            .map(|drift| {
                format!("{} ({})", admin::text(&drift["part"]), admin::text(&drift["class"]))
            })
            .collect();
        // Only violations of the tool's schema were counted.
        let state = tool["state"].as_str().unwrap_or("not compared");
        let accepted = if tool["accepted"] == true { ", accepted" } else { "" };
        let cells = [
            admin::text(&tool["tool"]),
            format!("{state}{accepted}"),
            if is_quarantined { "yes" } else { "" }.to_owned(),
            parts.join(", "),
            admin::text(&tool["live"]),
        ];
        match (is_quarantined, state) {
            (true, _) => table.painted(Paint::Bad, cells),
            (false, "unchanged") => table.row(cells),
            _ => table.painted(Paint::Careful, cells),
        }
    }
    session.screen.table(&table)
}
