//! `gateway sagas`: lists sagas and retries failed compensations.

use serde_json::{Value, json};

use super::{
    super::{Session, review::confirm_action},
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
            let saga = admin.get(&format!("sagas/{}", path_segment(&args.id)?)).await?;
            show(session, &saga)
        }
        Some(SagasCommand::Retry(args)) => {
            let id = path_segment(&args.saga.id)?;
            let action = format!("retry the compensation of the saga {id}");
            if confirm_action(session.screen, &action, args.confirm)? {
                admin.post("sagas/retry", &json!({ "saga": id })).await?;
                session.screen.line(&format!(
                    "the compensation of {id} has started; `gateway sagas show {id}` shows its result"
                ))?;
            }
            Ok(())
        }
    }
}

/// Validates an id, so that it is one segment of a path.
fn path_segment(id: &str) -> Result<&str, Failure> {
    let is_valid = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_valid.then_some(id).ok_or_else(|| Failure::Usage(format!("`{id}` is not the id of a saga")))
}

fn list(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(answer);
    }
    let mut table =
        TextTable::new(&["SAGA", "TOOL", "ID", "STATUS", "FAILED AT", "UNCOMPENSATED", "SINCE"]);
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
        let line =
            format!("{damaged} lines of the gateway's journal are damaged; its log names them");
        session.screen.line(&session.screen.style.paint(Paint::Bad, line))?;
    }
    Ok(())
}

fn show(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(answer);
    }
    let saga = &answer["saga"];
    let fields = [("tool", "tool"), ("id", "instance"), ("status", "status"), ("since", "at")];
    for (name, member) in fields {
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
    line("result", &history["end"]["output"])?;
    let (steps, outcomes) = (admin::list(history, "steps"), admin::list(&history["end"], "steps"));
    for i in 0..steps.len().max(outcomes.len()) {
        // A completed or compensated saga has only the outcomes.
        let outcome = outcomes.get(i).unwrap_or(&Value::Null);
        let step = steps.get(i).unwrap_or(outcome);
        let id = admin::text(&outcome["id"]);
        let state = step.get("state").or_else(|| outcome.get("outcome"));
        let state = state.map(admin::text).unwrap_or_default();
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
