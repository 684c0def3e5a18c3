//! `LedgerService`: reports of gateways, recalls, and budgets for operators.

use std::{sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use ledger::WindowId;
use registry_core::Amount;
use registry_proto::{
    convert,
    v1::{self, ledger_service_server::LedgerService},
};
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{
    Service, access,
    deadline::begin_write,
    invalid::{self, FILTER_BYTES, InvalidRequest, field},
    status,
};
use crate::{
    access::{Principal, Role, Roles},
    app::{
        ledger::{
            Adjustment, AdminError, Budget, BudgetAccount, BudgetDetail, BudgetList,
            BudgetSelector, BudgetsWanted, GatewayLedger, Ledger, Reclamation, Recovery, Watcher,
        },
        page::Page,
    },
    feed,
    store::{
        AlertDelivery, ChangeOrigin, Crossing, LedgerChange, ListedAlert, ListedChange, Reclaimed,
    },
};

/// Maximum length of a reason, in bytes.
const REASON_BYTES: usize = 1024;

/// Interval between messages that keep a stream of recalls alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The callers that report in the name of gateways.
const FORWARDERS: Roles = Roles::new(&[Role::Relay, Role::Admin]);

impl Service {
    /// The ledger of the registry, for operators. A relay has none.
    pub(super) fn ledger(&self) -> Result<&Arc<Ledger>, Status> {
        match &self.app.ledger {
            GatewayLedger::Own(ledger) => Ok(ledger),
            GatewayLedger::Upstream(ledger) => {
                Err(AdminError::Relay(ledger.upstream().to_owned()).into())
            }
        }
    }
}

#[tonic::async_trait]
impl LedgerService for Service {
    type WatchRecallsStream = BoxStream<'static, Result<v1::WatchRecallsResponse, Status>>;

    async fn report_spending(
        &self,
        mut request: Request<v1::ReportSpendingRequest>,
    ) -> Result<Response<v1::ReportSpendingResponse>, Status> {
        let caller = access::principal(&request)?;
        let gateway = reported_gateway(&caller, std::mem::take(&mut request.get_mut().gateway))?;
        begin_write(&request);
        let report = convert::read_report(request.into_inner()).map_err(InvalidRequest::from)?;
        let answer = self.app.ledger.report(&gateway, report).await?;
        Ok(Response::new(convert::write_answer(&answer)))
    }

    async fn watch_recalls(
        &self,
        request: Request<v1::WatchRecallsRequest>,
    ) -> Result<Response<Self::WatchRecallsStream>, Status> {
        let principal = access::principal(&request)?;
        let v1::WatchRecallsRequest { all_gateways } = request.into_inner();
        let watcher = if all_gateways {
            check_forwarder(&principal)?;
            Watcher::Relay(principal.name.clone())
        } else {
            Watcher::Gateway(principal.name.clone())
        };
        let recalls = ReceiverStream::new(self.app.ledger.watch_recalls(&watcher).await?);
        let recalls = recalls.map(|recall| Ok::<_, Status>(convert::write_recall(&recall)));
        let ledger = self.app.ledger.clone();
        let recalls = recalls.chain(stream::once(async move { Err(ledger.lost().into()) }));
        let (access, draining) = (self.app.access.clone(), self.app.draining.clone());
        let end = async move {
            let error = tokio::select! {
                () = draining.cancelled() => feed::Error::Draining,
                () = access.ended(&principal) => feed::Error::CredentialsEnded,
            };
            Err::<v1::WatchRecallsResponse, Status>(error.into())
        };
        let messages = stream::select(stream::select(recalls, stream::once(end)), keep_alive());
        // The subscription is active now.
        let first = stream::iter([Ok(v1::WatchRecallsResponse::default())]);
        Ok(Response::new(first.chain(messages).boxed()))
    }

    async fn list_budgets(
        &self,
        request: Request<v1::ListBudgetsRequest>,
    ) -> Result<Response<v1::ListBudgetsResponse>, Status> {
        let ledger = self.ledger()?;
        let mut request = request.into_inner();
        let page = page_request!("ListBudgets", request);
        let v1::ListBudgetsRequest { policy, include_ended_windows, .. } = request;
        let policy = invalid::line("policy", policy, FILTER_BYTES)?;
        let wanted = BudgetsWanted { policy, include_ended: include_ended_windows };
        let BudgetList { page, recovery } = ledger.list_budgets(wanted, &page).await?;
        let Page { items, next_page_token } = page;
        let budgets = items.iter().map(|budget| encode(ledger, budget)).collect();
        let recovery = recovery.map(encode_recovery);
        Ok(Response::new(v1::ListBudgetsResponse { budgets, next_page_token, recovery }))
    }

    async fn get_budget(
        &self,
        request: Request<v1::GetBudgetRequest>,
    ) -> Result<Response<v1::GetBudgetResponse>, Status> {
        let ledger = self.ledger()?;
        let v1::GetBudgetRequest { key, window } = request.into_inner();
        let detail = ledger.show_budget(&read_selector(key, window)?).await?;
        let BudgetDetail { budget, accounts, more_accounts, alerts, changes, .. } = detail;
        let recovery = detail.recovery.map(encode_recovery);
        Ok(Response::new(v1::GetBudgetResponse {
            budget: Some(encode(ledger, &budget)),
            accounts: accounts.into_iter().map(encode_account).collect(),
            more_accounts_count: more_accounts,
            generation: detail.generation,
            is_recovering: recovery.is_some(),
            awaited_gateways: recovery.as_ref().map(awaited).unwrap_or_default(),
            recovery,
            changes: changes.into_iter().map(encode_change).collect(),
            alerts: alerts.into_iter().map(encode_alert).collect(),
        }))
    }

    async fn adjust_budget(
        &self,
        request: Request<v1::AdjustBudgetRequest>,
    ) -> Result<Response<v1::AdjustBudgetResponse>, Status> {
        let (ledger, by) = (self.ledger()?, access::principal(&request)?);
        begin_write(&request);
        let v1::AdjustBudgetRequest { key, window, adjustment, reason } = request.into_inner();
        let wanted = Adjustment {
            selector: read_selector(key, window)?,
            adjustment: Amount::parse(&adjustment).map_err(|e| field("adjustment", &e))?,
            reason: read_reason(reason)?,
        };
        let budget = ledger.adjust_budget(&by, wanted).await?;
        let budget = Some(encode(ledger, &budget));
        Ok(Response::new(v1::AdjustBudgetResponse { budget }))
    }

    async fn reclaim_budget(
        &self,
        request: Request<v1::ReclaimBudgetRequest>,
    ) -> Result<Response<v1::ReclaimBudgetResponse>, Status> {
        let (ledger, by) = (self.ledger()?, access::principal(&request)?);
        begin_write(&request);
        let v1::ReclaimBudgetRequest { key, window, gateway, epoch, reason } = request.into_inner();
        let gateway = invalid::line("gateway", gateway, FILTER_BYTES)?;
        if gateway.is_empty() {
            return Err(InvalidRequest::Missing("gateway").into());
        }
        let epoch = Some(epoch).filter(|epoch| !epoch.is_empty());
        let epoch = epoch.map(|epoch| convert::epoch(&epoch, "epoch")).transpose();
        let wanted = Reclamation {
            selector: read_selector(key, window)?,
            gateway,
            epoch: epoch.map_err(InvalidRequest::from)?,
            reason: read_reason(reason)?,
        };
        let (budget, reclaimed) = ledger.reclaim_budget(&by, wanted).await?;
        let budget = Some(encode(ledger, &budget));
        let Reclaimed { amount, live } = reclaimed;
        Ok(Response::new(v1::ReclaimBudgetResponse {
            budget,
            reclaimed: amount.to_string(),
            live_epochs: live.iter().map(ToString::to_string).collect(),
        }))
    }
}

/// The principal of the gateway of a report.
pub(super) fn reported_gateway(caller: &Principal, gateway: String) -> Result<Arc<str>, Status> {
    if gateway.is_empty() {
        return Ok(caller.name.clone());
    }
    check_forwarder(caller)?;
    Ok(invalid::line("gateway", gateway, FILTER_BYTES)?.into())
}

/// A caller without the role of a relay reports for itself only.
fn check_forwarder(caller: &Principal) -> Result<(), Status> {
    if caller.roles.intersects(FORWARDERS) {
        return Ok(());
    }
    Err(status::forwarding_denied(&caller.name, FORWARDERS))
}

/// Messages that keep a stream of recalls alive.
fn keep_alive() -> impl Stream<Item = Result<v1::WatchRecallsResponse, Status>> {
    stream::repeat_with(v1::WatchRecallsResponse::default).then(|message| async move {
        sleep(KEEP_ALIVE).await;
        Ok::<_, Status>(message)
    })
}

fn read_selector(
    key: Option<v1::BudgetKey>,
    window: String,
) -> Result<BudgetSelector, InvalidRequest> {
    let window = invalid::line("window", window, FILTER_BYTES)?;
    Ok(BudgetSelector {
        key: convert::budget_key(key, "key")?,
        window: Some(window).filter(|window| !window.is_empty()).map(WindowId::new),
    })
}

fn read_reason(reason: String) -> Result<String, InvalidRequest> {
    let reason = invalid::line("reason", reason, REASON_BYTES)?;
    if reason.trim().is_empty() { Err(InvalidRequest::Missing("reason")) } else { Ok(reason) }
}

fn encode(ledger: &Ledger, budget: &Budget) -> v1::Budget {
    let row = &budget.listed.row;
    v1::Budget {
        key: Some((&budget.listed.book.budget).into()),
        window: budget.listed.book.window.to_string(),
        window_end_time: budget.listed.end.map(convert::timestamp),
        currency: ledger.currency().to_owned(),
        limit: budget.limit.map(|limit| limit.to_string()),
        adjustment: row.adjustment.to_string(),
        settled: row.settled.to_string(),
        exposed: row.exposed.to_string(),
        available: budget.available().to_string(),
        in_doubt: budget.listed.in_doubt.to_string(),
        overshoot: row.overshoot.to_string(),
        reclaimed: row.reclaimed.to_string(),
        unexplained: row.unexplained.to_string(),
    }
}

fn encode_recovery(recovery: Recovery) -> v1::LedgerRecovery {
    let Recovery { remaining, awaited_gateways } = recovery;
    v1::LedgerRecovery { remaining: Some(convert::duration(remaining)), awaited_gateways }
}

fn awaited(recovery: &v1::LedgerRecovery) -> Vec<String> {
    recovery.awaited_gateways.clone()
}

fn encode_account(BudgetAccount { listed, is_reachable }: BudgetAccount) -> v1::Account {
    v1::Account {
        gateway: listed.gateway,
        epoch: listed.epoch.to_string(),
        granted: listed.row.granted.to_string(),
        returned: listed.row.returned.to_string(),
        settled: listed.row.settled.to_string(),
        forced: listed.row.forced.to_string(),
        unexplained: listed.row.unexplained.to_string(),
        is_closed: listed.row.is_closed,
        is_reachable,
        last_contact_time: listed.last_contact.map(convert::timestamp),
    }
}

fn encode_alert(ListedAlert { crossing, delivery }: ListedAlert) -> v1::BudgetAlert {
    use v1::BudgetAlertDelivery as Wire;
    let Crossing { threshold, at, settled, limit } = crossing;
    let (delivery, delivered) = match delivery {
        AlertDelivery::NoWebhook => (Wire::NoWebhook, None),
        AlertDelivery::Pending => (Wire::Pending, None),
        AlertDelivery::Delivered(at) => (Wire::Delivered, Some(at)),
        AlertDelivery::Failed => (Wire::Failed, None),
    };
    v1::BudgetAlert {
        threshold: threshold.into(),
        crossed_time: Some(convert::timestamp(at)),
        settled: settled.to_string(),
        limit: limit.to_string(),
        delivery: delivery.into(),
        delivered_time: delivered.map(convert::timestamp),
    }
}

fn encode_change(ListedChange { what, change }: ListedChange) -> v1::BudgetChange {
    let ChangeOrigin { at, principal, reason } = what;
    let (kind, amount, gateway) = match change {
        LedgerChange::Adjust(amount) => (v1::BudgetChangeType::Adjust, amount, String::new()),
        LedgerChange::Reclaim { gateway, amount } => {
            (v1::BudgetChangeType::Reclaim, amount, gateway)
        }
    };
    v1::BudgetChange {
        change_time: Some(convert::timestamp(at)),
        principal,
        r#type: kind.into(),
        amount: amount.to_string(),
        gateway,
        reason,
    }
}
