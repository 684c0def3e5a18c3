//! `budget`: spending of the fleet, changes of limits, and the rights of lost gateways.

use registry_proto::{convert::read_duration, v1};
use serde_json::json;

use super::{Session, review::confirm_action};
use crate::{
    cli::{
        AdjustBudgetArgs, BudgetArg, BudgetCommand, Format, ListBudgetsArgs, ReclaimBudgetArgs,
        ShowBudgetArgs,
    },
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    style::{Paint, printable},
    view::{AccountView, BudgetAlertView, BudgetChangeView, BudgetView},
};

pub(super) async fn run(session: &Session, command: BudgetCommand) -> Result<(), Failure> {
    match command {
        BudgetCommand::List(args) => list(session, args).await,
        BudgetCommand::Show(args) => show(session, args).await,
        BudgetCommand::Adjust(args) => adjust(session, args).await,
        BudgetCommand::Reclaim(args) => reclaim(session, args).await,
    }
}

async fn list(session: &Session, args: ListBudgetsArgs) -> Result<(), Failure> {
    let ListBudgetsArgs { policy, all } = args;
    let client = session.connect().await?;
    let mut wanted = v1::ListBudgetsRequest {
        policy,
        include_ended_windows: all,
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    let mut budgets = Vec::new();
    let recovery = loop {
        let page = client.answer(client.ledger().list_budgets(request(wanted.clone()))).await?;
        budgets.extend(page.budgets.into_iter().map(BudgetView::from));
        if page.next_page_token.is_empty() {
            break page.recovery;
        }
        wanted.page_token = page.next_page_token;
    };
    if session.screen.format == Format::Json {
        return session.screen.json(&budgets);
    }
    show_recovery(session, recovery.as_ref())?;
    session.screen.table(&budget_table(&budgets))
}

async fn show(session: &Session, ShowBudgetArgs { budget }: ShowBudgetArgs) -> Result<(), Failure> {
    let BudgetArg { window, .. } = &budget;
    let wanted = v1::GetBudgetRequest { window: window.clone(), key: Some(key(&budget)) };
    let client = session.connect().await?;
    let shown = client.answer(client.ledger().get_budget(request(wanted))).await?;
    let budget = view(shown.budget)?;
    let accounts: Vec<_> = shown.accounts.into_iter().map(AccountView::from).collect();
    let alerts: Vec<_> = shown.alerts.into_iter().map(BudgetAlertView::from).collect();
    let changes: Vec<_> = shown.changes.into_iter().map(BudgetChangeView::from).collect();
    let (more, is_recovering) = (shown.more_accounts_count, shown.is_recovering);
    let awaited = shown.awaited_gateways;
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({
            "budget": budget,
            "accounts": accounts,
            "moreAccounts": more,
            "alerts": alerts,
            "changes": changes,
            "generation": shown.generation,
            "isRecovering": is_recovering,
            "recoveryRemainingSeconds": shown.recovery.as_ref().map(remaining_seconds),
            "awaitedGateways": awaited,
        }));
    }
    show_recovery(session, shown.recovery.as_ref())?;
    session.screen.table(&budget_table(&[budget]))?;
    if !accounts.is_empty() {
        session.screen.line("")?;
        session.screen.table(&account_table(&accounts))?;
    }
    if more > 0 {
        session.screen.line(&format!("{more} more accounts"))?;
    }
    if !alerts.is_empty() {
        session.screen.line("")?;
        session.screen.table(&alert_table(&alerts))?;
    }
    if !changes.is_empty() {
        session.screen.line("")?;
        session.screen.table(&change_table(&changes))?;
    }
    Ok(())
}

async fn adjust(session: &Session, args: AdjustBudgetArgs) -> Result<(), Failure> {
    let AdjustBudgetArgs { budget, adjustment, reason, confirm } = args;
    let action = format!("change the limit of {} by {adjustment}", name(&budget));
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let wanted = v1::AdjustBudgetRequest {
        key: Some(key(&budget)),
        window: budget.window,
        adjustment: adjustment.to_string(),
        reason,
    };
    let client = session.connect().await?;
    let adjusted = client.answer(client.ledger().adjust_budget(request(wanted))).await?;
    let budget = view(adjusted.budget)?;
    if session.screen.format == Format::Json {
        return session.screen.json(&budget);
    }
    session.screen.table(&budget_table(&[budget]))
}

async fn reclaim(session: &Session, args: ReclaimBudgetArgs) -> Result<(), Failure> {
    let ReclaimBudgetArgs { budget, gateway, epoch, reason, confirm } = args;
    let action = format!("reclaim the unspent rights of {gateway} from {}", name(&budget));
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let wanted = v1::ReclaimBudgetRequest {
        key: Some(key(&budget)),
        window: budget.window,
        gateway,
        epoch,
        reason,
    };
    let client = session.connect().await?;
    let done = client.answer(client.ledger().reclaim_budget(request(wanted))).await?;
    let budget = view(done.budget)?;
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({
            "reclaimed": done.reclaimed,
            "liveEpochs": done.live_epochs,
            "budget": budget,
        }));
    }
    session.screen.line(&format!("reclaimed {} {}", done.reclaimed, budget.currency))?;
    for epoch in &done.live_epochs {
        session.screen.line(&format!("process {epoch} may still spend and keeps its rights"))?;
    }
    session.screen.table(&budget_table(&[budget]))
}

fn show_recovery(session: &Session, recovery: Option<&v1::LedgerRecovery>) -> Result<(), Failure> {
    let Some(recovery) = recovery else { return Ok(()) };
    session.screen.line(&printable(&recovery_line(recovery)))
}

fn recovery_line(recovery: &v1::LedgerRecovery) -> String {
    let seconds = remaining_seconds(recovery);
    let awaited = recovery.awaited_gateways.join(", ");
    if awaited.is_empty() {
        return format!("the ledger recovers: budgets grant nothing for {seconds} s");
    }
    format!(
        "the ledger recovers: budgets grant nothing for at most {seconds} s; it waits for reports of \
         {awaited}"
    )
}

/// The remaining time in started seconds.
fn remaining_seconds(recovery: &v1::LedgerRecovery) -> u64 {
    let remaining = recovery.remaining.map(read_duration).unwrap_or_default();
    remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0)
}

fn key(BudgetArg { policy, budget, subject, window: _ }: &BudgetArg) -> v1::BudgetKey {
    v1::BudgetKey { policy: policy.clone(), budget: budget.clone(), subject: subject.clone() }
}

fn name(BudgetArg { policy, budget, subject, window }: &BudgetArg) -> String {
    let window = if window.is_empty() { "the current window" } else { window };
    format!("{policy}/{budget} of {subject} in {window}")
}

fn view(budget: Option<v1::Budget>) -> Result<BudgetView, Failure> {
    let budget = budget.ok_or_else(|| Failure::invalid_response("the budget is missing"))?;
    Ok(BudgetView::from(budget))
}

fn budget_table(budgets: &[BudgetView]) -> TextTable {
    let head = [
        "POLICY",
        "BUDGET",
        "SUBJECT",
        "WINDOW",
        "LIMIT",
        "SETTLED",
        "EXPOSED",
        "AVAILABLE",
        "IN DOUBT",
        "OVERSHOOT",
        "UNEXPLAINED",
        "CURRENCY",
    ];
    let mut table = TextTable::new(&head);
    for budget in budgets {
        let limit = budget.limit.as_deref().unwrap_or("none");
        let cells = [
            &*budget.policy,
            &budget.budget,
            &budget.subject,
            &budget.window,
            limit,
            &budget.settled,
            &budget.exposed,
            &budget.available,
            &budget.in_doubt,
            &budget.overshoot,
            &budget.unexplained,
            &budget.currency,
        ];
        if budget.limit.is_none() { table.painted(Paint::Dim, cells) } else { table.row(cells) }
    }
    table
}

fn account_table(accounts: &[AccountView]) -> TextTable {
    let head = [
        "GATEWAY",
        "EPOCH",
        "GRANTED",
        "RETURNED",
        "SETTLED",
        "FORCED",
        "UNEXPLAINED",
        "STATE",
        "LAST CONTACT",
    ];
    let mut table = TextTable::new(&head);
    for account in accounts {
        let cells = [
            &*account.gateway,
            &account.epoch,
            &account.granted,
            &account.returned,
            &account.settled,
            &account.forced,
            &account.unexplained,
            account.state,
            account.last_contact_at.as_deref().unwrap_or("never"),
        ];
        if account.state == "closed" { table.painted(Paint::Dim, cells) } else { table.row(cells) }
    }
    table
}

fn alert_table(alerts: &[BudgetAlertView]) -> TextTable {
    let mut table = TextTable::new(&["ALERT", "CROSSED", "SETTLED", "LIMIT", "DELIVERY"]);
    for alert in alerts {
        let threshold = alert.threshold.to_string();
        table.row([
            &*threshold,
            alert.crossed_at.as_deref().unwrap_or_default(),
            &alert.settled,
            &alert.limit,
            alert.delivery,
        ]);
    }
    table
}

fn change_table(changes: &[BudgetChangeView]) -> TextTable {
    let mut table = TextTable::new(&["TIME", "BY", "CHANGE", "AMOUNT", "GATEWAY", "REASON"]);
    for change in changes {
        table.row([
            change.at.as_deref().unwrap_or_default(),
            &change.principal,
            change.change,
            &change.amount,
            &change.gateway,
            &change.reason,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_shows_remaining_seconds_and_awaited_gateways() {
        let line = |seconds, nanos, awaited: &[&str]| {
            recovery_line(&v1::LedgerRecovery {
                remaining: Some(prost_types::Duration { seconds, nanos }),
                awaited_gateways: awaited.iter().map(ToString::to_string).collect(),
            })
        };
        insta::assert_snapshot!(line(41, 1_000_000, &[]), @"the ledger recovers: budgets grant nothing for 42 s");
        insta::assert_snapshot!(line(3_540, 0, &["eu-1", "us-1"]), @"the ledger recovers: budgets grant nothing for at most 3540 s; it waits for reports of eu-1, us-1");
    }
}
