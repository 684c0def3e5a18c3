//! `gateway sagas`: the sagas that a gateway knows, and undoing what is left of one.
//!
//! A completed saga cannot be undone.

use serde_json::{Value, json};

use super::{
    super::Session,
    admin::{self, Admin},
};
use crate::{
    cli::{Format, SagasArgs, SagasCommand},
    failure::Failure,
    screen::TextTable,
    style::{Paint, printable},
};

pub(super) async fn run(session: &Session, admin: &Admin, args: &SagasArgs) -> Result<(), Failure> {
    match &args.command {
        None => list(session, &admin.get("sagas").await?),
        Some(SagasCommand::Show(args)) => {
            let saga = admin.get(&format!("sagas/{}", part(&args.id)?)).await?;
            show(session, &saga)
        }
        Some(SagasCommand::Retry(args)) => {
            admin.post("sagas/retry", &json!({ "saga": args.id })).await?;
            session.screen.line(&format!(
                "{} begins to be undone again; `gateway sagas show {}` tells how it ends",
                args.id, args.id
            ))
        }
    }
}

/// An id as a part of a path; none has other characters than these.
fn part(id: &str) -> Result<&str, Failure> {
    let is_plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_plain.then_some(id).ok_or_else(|| Failure::Usage(format!("{id} is not the id of a saga")))
}

fn list(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(answer);
    }
    let mut table = TextTable::new(&["SAGA", "TOOL", "ID", "STATUS", "FAILED AT", "LEFT", "SINCE"]);
    for saga in admin::list(answer, "sagas") {
        let status = admin::text(&saga["status"]);
        let left: Vec<_> = admin::list(saga, "left").iter().map(admin::text).collect();
        let cells = [
            admin::text(&saga["id"]),
            admin::text(&saga["tool"]),
            admin::text(&saga["instance"]),
            status.clone(),
            admin::text(&saga["failedStep"]),
            left.join(", "),
            admin::text(&saga["at"]),
        ];
        match status.as_str() {
            "compensation_failed" => table.painted(Paint::Bad, cells),
            "running" | "compensating" => table.painted(Paint::Careful, cells),
            _ => table.row(cells),
        }
    }
    session.screen.table(&table)?;
    let damaged = answer["damagedLines"].as_u64().unwrap_or_default();
    if damaged > 0 {
        let line = format!(
            "{damaged} lines of its journal could not be read when it was started; its log says which"
        );
        session.screen.line(&session.screen.style.paint(Paint::Bad, line))?;
    }
    Ok(())
}

fn show(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(answer);
    }
    let saga = &answer["saga"];
    let told = [("tool", "tool"), ("id", "instance"), ("status", "status"), ("since", "at")];
    for (name, member) in told {
        let text = admin::text(&saga[member]);
        if !text.is_empty() {
            session.screen.line(&format!("{name:<8}{}", printable(&text)))?;
        }
    }
    let history = &answer["history"];
    let line = |name: &str, value: &Value| match value {
        Value::Null => Ok(()),
        value => session.screen.line(&format!("{name:<8}{}", printable(&value.to_string()))),
    };
    line("input", &history["began"]["input"])?;
    line("error", &history["failed"]["error"])?;
    let ids = admin::list(&history["end"], "steps");
    for (i, step) in admin::list(history, "steps").iter().enumerate() {
        let id = ids.get(i).map(|step| admin::text(&step["id"])).unwrap_or_default();
        let state = admin::text(&step["state"]);
        session.screen.line(&format!("step {}  {} {state}", i + 1, printable(&id)))?;
        for (name, member) in [("input", "input"), ("result", "result"), ("error", "error")] {
            if !step[member].is_null() {
                let value = step[member].to_string();
                session.screen.line(&format!("        {name:<8}{}", printable(&value)))?;
            }
        }
    }
    Ok(())
}
