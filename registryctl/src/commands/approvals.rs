//! `approvals` and `approve`: requests for approvals of calls, decisions, and standing grants.

use registry_core::duration::format_iso_duration;
use registry_proto::v1::{self, decide_approval_request::Choice};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Session, review::confirm_action};
use crate::{
    cli::{
        ApprovalsCommand, ApproveArgs, CancelApprovalsArgs, DenyArgs, Format, ListApprovalsArgs,
        RevokeGrantsArgs,
    },
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    style::{Paint, printable_lines},
    view::{ApprovalStepView, ApprovalView, DecisionView, GrantView},
};

/// The remedy of a request that a change of the catalog has ended.
const INVALID: &str =
    "the tool or a policy has changed since the request; the caller repeats its call";

pub(super) async fn run(session: &Session, command: ApprovalsCommand) -> Result<(), Failure> {
    match command {
        ApprovalsCommand::List(args) => list(session, args).await,
        ApprovalsCommand::Show(args) => show(session, &args.id).await,
        ApprovalsCommand::Approve(args) => approve(session, args).await,
        ApprovalsCommand::Deny(args) => deny(session, args).await,
        ApprovalsCommand::Cancel(args) => cancel(session, args).await,
        ApprovalsCommand::Grants => grants(session).await,
        ApprovalsCommand::Revoke(args) => revoke(session, args).await,
    }
}

async fn list(session: &Session, args: ListApprovalsArgs) -> Result<(), Failure> {
    let ListApprovalsArgs { state, all, own } = args;
    let state = if all { v1::ApprovalState::Unspecified } else { state.into() };
    let mut wanted = v1::ListApprovalsRequest {
        state: state.into(),
        own,
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    let client = session.connect().await?;
    let mut approvals = Vec::new();
    loop {
        let page =
            client.answer(client.approvals().list_approvals(request(wanted.clone()))).await?;
        approvals.extend(page.approvals.into_iter().map(ApprovalView::from));
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    approvals.sort_by(|a, b| a.created_at.cmp(&b.created_at));
    if session.screen.format == Format::Json {
        return session.screen.json(&approvals);
    }
    session.screen.table(&approval_table(&approvals))
}

/// A request with its steps.
#[derive(Debug, Serialize)]
struct Shown {
    approval: ApprovalView,
    steps: Vec<ApprovalStepView>,
}

async fn read(client: &Client, id: &str) -> Result<Shown, Failure> {
    let wanted = request(v1::GetApprovalRequest { id: id.to_owned() });
    let shown = client.answer(client.approvals().get_approval(wanted)).await?;
    let steps = shown.steps.into_iter().map(ApprovalStepView::from).collect();
    Ok(Shown { approval: view(shown.approval)?, steps })
}

async fn show(session: &Session, id: &str) -> Result<(), Failure> {
    let client = session.connect().await?;
    let shown = read(&client, id).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&shown);
    }
    print(session, &shown)
}

fn print(session: &Session, Shown { approval, steps }: &Shown) -> Result<(), Failure> {
    let screen = session.screen;
    screen.table(&approval_table(std::slice::from_ref(approval)))?;
    screen.line("")?;
    screen.table(&demand_table(approval))?;
    if let Some(earlier) = &approval.uncertain {
        screen.line("")?;
        screen.line(&format!("WARNING: the call may have been executed already, see {earlier}"))?;
    }
    screen.line("")?;
    match &approval.arguments {
        Some(arguments) => {
            let text = printable_lines(arguments.get());
            let is_selected = approval.call.policies.iter().any(|demand| !demand.show.is_empty());
            let kind = if is_selected { "selected by the policies" } else { "redacted" };
            screen.line(&format!("arguments, {kind}: {text}"))?;
            if is_selected {
                screen.line("other arguments of the call are hidden")?;
            }
        }
        None => screen.line("arguments: erased, or hidden from your roles")?,
    }
    if !approval.decisions.is_empty() {
        screen.line("")?;
        screen.table(&decision_table(&approval.decisions))?;
    }
    screen.line("")?;
    screen.table(&step_table(steps))
}

/// Shows the requests before the question, so that a person knows what it approves.
pub(super) async fn approve(session: &Session, args: ApproveArgs) -> Result<(), Failure> {
    let ApproveArgs { ids, grant_for, any_arguments, confirm } = args;
    let client = session.connect().await?;
    if !confirm.yes && session.screen.format == Format::Table {
        for id in &ids {
            print(session, &read(&client, id).await?)?;
            session.screen.line("")?;
        }
    }
    let calls = counted(ids.len(), "call");
    let action = match grant_for {
        None => format!("approve {calls}"),
        Some(time) => {
            let scope = if any_arguments { "any arguments" } else { "the same arguments" };
            let time = format_iso_duration(time);
            format!("approve {calls}, and later calls with {scope} for {time}")
        }
    };
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let scope = if any_arguments { v1::GrantScope::Tool } else { v1::GrantScope::Arguments };
    let choice = Choice::Approve(v1::ApproveChoice {
        grant_for: grant_for.map(registry_proto::convert::duration),
        grant_scope: scope.into(),
    });
    decide(session, &client, &ids, &choice).await
}

async fn deny(session: &Session, args: DenyArgs) -> Result<(), Failure> {
    let DenyArgs { ids, reason, confirm } = args;
    let action = format!("deny {}", counted(ids.len(), "call"));
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let client = session.connect().await?;
    let choice = Choice::Deny(v1::DenyChoice { reason });
    decide(session, &client, &ids, &choice).await
}

async fn decide(
    session: &Session,
    client: &Client,
    ids: &[String],
    choice: &Choice,
) -> Result<(), Failure> {
    let mut results = Results::new(session, ids.len());
    for id in ids {
        let wanted = v1::DecideApprovalRequest {
            id: id.clone(),
            choice: Some(choice.clone()),
            is_batch: ids.len() > 1,
        };
        let decided = client.answer(client.approvals().decide_approval(request(wanted))).await;
        let decided = decided.and_then(|decided| view(decided.approval)).and_then(|approval| {
            let invalid = || Failure::Rejected(format!("{}: {INVALID}", approval.id));
            if approval.state == "invalid" { Err(invalid()) } else { Ok(approval) }
        });
        results.add(id, decided)?;
    }
    results.finish()
}

async fn cancel(session: &Session, args: CancelApprovalsArgs) -> Result<(), Failure> {
    let CancelApprovalsArgs { ids, confirm } = args;
    let action = format!("cancel {}", counted(ids.len(), "request"));
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let client = session.connect().await?;
    let mut results = Results::new(session, ids.len());
    for id in &ids {
        let wanted = request(v1::CancelApprovalRequest { id: id.clone() });
        let cancelled = client.answer(client.approvals().cancel_approval(wanted)).await;
        results.add(id, cancelled.and_then(|cancelled| view(cancelled.approval)))?;
    }
    results.finish()
}

async fn grants(session: &Session) -> Result<(), Failure> {
    let client = session.connect().await?;
    let mut wanted = v1::ListStandingGrantsRequest { page_size: PAGE_SIZE, ..Default::default() };
    let mut grants = Vec::new();
    loop {
        let page =
            client.answer(client.approvals().list_standing_grants(request(wanted.clone()))).await?;
        grants.extend(page.grants.into_iter().map(GrantView::from));
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&grants);
    }
    session.screen.table(&grant_table(&grants))
}

async fn revoke(session: &Session, args: RevokeGrantsArgs) -> Result<(), Failure> {
    let RevokeGrantsArgs { ids, confirm } = args;
    let action = format!("end {}", counted(ids.len(), "standing grant"));
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let client = session.connect().await?;
    for id in &ids {
        let wanted = request(v1::RevokeStandingGrantRequest { id: id.clone() });
        client.answer(client.approvals().revoke_standing_grant(wanted)).await?;
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({ "revoked": ids }));
    }
    session.screen.line(&format!("ended {}", counted(ids.len(), "standing grant")))
}

/// The results of one command for several requests. The failure of one request does not affect the others.
struct Results<'a> {
    session: &'a Session,
    count: usize,
    shown: Vec<Value>,
    failures: usize,
}

impl<'a> Results<'a> {
    fn new(session: &'a Session, count: usize) -> Self {
        Self { session, count, shown: Vec::new(), failures: 0 }
    }

    /// Prints a result. Other failures than a rejection end the command, and so does that of a single request.
    fn add(&mut self, id: &str, result: Result<ApprovalView, Failure>) -> Result<(), Failure> {
        let is_table = self.session.screen.format == Format::Table;
        match result {
            Ok(approval) => {
                if is_table {
                    let progress = approval.progress().filter(|_| approval.state == "pending");
                    let progress = progress.map(|counts| format!(", {counts} approvals"));
                    let state = format!("{}{}", approval.state, progress.unwrap_or_default());
                    self.session.screen.line(&format!("{id}: {state}"))?;
                }
                self.shown.push(json!({ "id": id, "state": approval.state }));
                Ok(())
            }
            Err(failure @ (Failure::RequestRejected { .. } | Failure::Rejected(_)))
                if self.count > 1 =>
            {
                if is_table {
                    self.session.screen.line(&printable_lines(&format!("{id}: {failure}")))?;
                }
                self.failures += 1;
                self.shown.push(json!({ "id": id, "error": failure.to_string() }));
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        if self.session.screen.format == Format::Json {
            self.session.screen.json(&self.shown)?;
        }
        if self.failures == 0 {
            return Ok(());
        }
        Err(Failure::Rejected(format!("{} of {} requests failed", self.failures, self.count)))
    }
}

fn view(approval: Option<v1::Approval>) -> Result<ApprovalView, Failure> {
    let approval = approval.ok_or_else(|| Failure::invalid_response("the approval is missing"))?;
    Ok(ApprovalView::from(approval))
}

/// `1 call`, `2 calls`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn approval_table(approvals: &[ApprovalView]) -> TextTable {
    let head = ["ID", "STATE", "CALL", "VERSION", "AGENT", "CALLER", "REQUESTED", "UNTIL"];
    let mut table = TextTable::new(&head);
    for approval in approvals {
        let call = &approval.call;
        let cells = [
            &*approval.id,
            approval.state,
            &call.resource,
            &call.version,
            call.agent.as_deref().unwrap_or("(unknown)"),
            &call.caller.subject,
            approval.created_at.as_deref().unwrap_or_default(),
            approval.expires_at.as_deref().unwrap_or("unlimited"),
        ];
        let is_open = matches!(approval.state, "pending" | "approved" | "consumed");
        if is_open { table.row(cells) } else { table.painted(Paint::Dim, cells) }
    }
    table
}

fn demand_table(approval: &ApprovalView) -> TextTable {
    let mut table = TextTable::new(&["POLICY", "APPROVERS", "QUORUM", "FOUR EYES"]);
    for demand in &approval.call.policies {
        let (approvers, quorum) = (demand.approvers.join(" "), demand.quorum.to_string());
        let four_eyes = if demand.four_eyes { "yes" } else { "no" };
        table.row([&*demand.policy, &approvers, &quorum, four_eyes]);
    }
    table
}

fn decision_table(decisions: &[DecisionView]) -> TextTable {
    let mut table = TextTable::new(&["DECISION", "BY", "SIGN-IN", "TIME", "GRANT UNTIL", "REASON"]);
    for decision in decisions {
        table.row([
            decision.choice,
            &decision.by.subject,
            decision.sign_in,
            decision.at.as_deref().unwrap_or_default(),
            decision.grant_until.as_deref().unwrap_or_default(),
            decision.reason.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

fn step_table(steps: &[ApprovalStepView]) -> TextTable {
    let mut table = TextTable::new(&["STEP", "TIME", "BY", "NAME"]);
    for step in steps {
        table.row([step.state, step.at.as_deref().unwrap_or_default(), &step.cause, &step.actor]);
    }
    table
}

fn grant_table(grants: &[GrantView]) -> TextTable {
    let mut table = TextTable::new(&["ID", "SCOPE", "CALL", "VERSION", "AGENT", "CALLER", "UNTIL"]);
    for grant in grants {
        let call = &grant.call;
        table.row([
            &*grant.id,
            grant.scope,
            &call.resource,
            &call.version,
            call.agent.as_deref().unwrap_or("(unknown)"),
            &call.caller.subject,
            grant.expires_at.as_deref().unwrap_or_default(),
        ]);
    }
    table
}
