//! `gateway approvals`: the approvals of a gateway without a registry.

use serde_json::{Value, json};

use super::{
    super::{Session, review::confirm_action},
    admin::{self, Admin},
};
use crate::{
    cli::{
        Format, GatewayApprovalsArgs, GatewayApprovalsCommand, GatewayApproveArgs, GatewayDenyArgs,
    },
    failure::Failure,
    screen::TextTable,
    style::Paint,
};

pub(super) async fn run(
    session: &Session,
    admin: &Admin,
    args: &GatewayApprovalsArgs,
) -> Result<(), Failure> {
    match &args.command {
        None => list(session, &admin.get("approvals").await?),
        Some(GatewayApprovalsCommand::Approve(GatewayApproveArgs { id, confirm })) => {
            let call = described(&admin.get("approvals").await?, id)?;
            if confirm_action(session.screen, &format!("approve {call}"), *confirm)? {
                let answer = admin.post("approvals/approve", &json!({ "id": id })).await?;
                show_decided(session, id, &answer)?;
            }
            Ok(())
        }
        Some(GatewayApprovalsCommand::Deny(GatewayDenyArgs { id, reason, confirm })) => {
            let call = described(&admin.get("approvals").await?, id)?;
            if confirm_action(session.screen, &format!("deny {call}"), *confirm)? {
                let body = json!({ "id": id, "reason": reason });
                show_decided(session, id, &admin.post("approvals/deny", &body).await?)?;
            }
            Ok(())
        }
    }
}

fn show_decided(session: &Session, id: &str, answer: &Value) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(answer);
    }
    session.screen.line(&format!("{id} is {}", admin::text(&answer["state"])))
}

/// The call of a request, for the question of a decision.
fn described(answer: &Value, id: &str) -> Result<String, Failure> {
    let mut requests = admin::list(answer, "approvals").iter();
    let found = requests.find(|request| request["id"] == id).ok_or_else(|| {
        let message = format!("no request {id}; `gateway approvals` lists them");
        Failure::RequestRejected { reason: "NOT_FOUND".to_owned(), message }
    })?;
    let warning = match admin::text(&found["uncertainId"]) {
        earlier if earlier.is_empty() => String::new(),
        earlier => format!(" (the earlier call {earlier} may have been executed)"),
    };
    Ok(format!(
        "the call of {}@{} by {} with the arguments {}{warning}",
        admin::text(&found["resource"]),
        admin::text(&found["version"]),
        caller(found),
        found["arguments"]
    ))
}

/// The agent that calls, or the account.
fn caller(request: &Value) -> String {
    let agent = admin::text(&request["agent"]);
    if agent.is_empty() { admin::text(&request["caller"]["subject"]) } else { agent }
}

fn list(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(&answer["approvals"]);
    }
    let mut table = TextTable::new(&["ID", "STATE", "CALLER", "CALL", "ARGUMENTS", "SINCE"]);
    for request in admin::list(answer, "approvals") {
        let state = admin::text(&request["state"]);
        let (resource, version) =
            (admin::text(&request["resource"]), admin::text(&request["version"]));
        let cells = [
            admin::text(&request["id"]),
            state.clone(),
            caller(request),
            format!("{resource}@{version}"),
            request["arguments"].to_string(),
            admin::text(&request["createdAt"]),
        ];
        match state.as_str() {
            "pending" => table.painted(Paint::Careful, cells),
            "unknown" => table.painted(Paint::Bad, cells),
            _ => table.row(cells),
        }
    }
    session.screen.table(&table)
}
