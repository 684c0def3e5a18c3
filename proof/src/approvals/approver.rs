//! A person that reads the pending requests at any server, and decides about the orders of each agent.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use acceptance::access::Authorized;
use history_check::{ApprovalEvent, Event};
use registry_proto::v1::{
    self, ApprovalState, approval_service_client::ApprovalServiceClient,
    decide_approval_request::Choice,
};
use serde_json::Value;
use tokio::{sync::Notify, time::timeout};

use super::catalog::is_own_order;
use crate::{fleet::Operator, rng::Rng};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(40);
/// Maximum number of requests on a page.
const PAGE: i32 = 1_000;
const NAME: &str = "approver";

/// The intention for a request. A decision with an unknown outcome is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Approve,
    Deny,
    Ignore,
}

pub(super) struct Approver {
    client: Operator,
    rng: Rng,
    /// By request.
    plans: BTreeMap<String, Plan>,
    /// Whether all requests of orders are approved.
    is_generous: bool,
}

impl Approver {
    pub(super) fn new(client: Operator, rng: Rng) -> Self {
        Self { client, rng, plans: BTreeMap::new(), is_generous: false }
    }

    /// The same person, which approves all requests of orders.
    pub(super) fn generous(self) -> Self {
        Self { is_generous: true, ..self }
    }

    /// Decides until it is stopped.
    pub(super) async fn run(mut self, stop: Arc<Notify>) {
        while timeout(PAUSE, stop.notified()).await.is_err() {
            for server in 0..self.client.servers.len() {
                let Some(pending) = requests(&self.client, server, ApprovalState::Pending).await
                else {
                    continue;
                };
                for approval in pending {
                    self.decide(server, approval.id).await;
                }
                break;
            }
        }
    }

    async fn decide(&mut self, server: usize, id: String) {
        let known = self.plans.get(&id).copied();
        let plan = if known.is_some() { known } else { self.read(server, &id).await };
        let choice = match plan {
            Some(Plan::Approve) => Choice::Approve(v1::ApproveChoice::default()),
            Some(Plan::Deny) => Choice::Deny(v1::DenyChoice { reason: "too much".to_owned() }),
            Some(Plan::Ignore) | None => return,
        };
        let request = v1::DecideApprovalRequest { id, choice: Some(choice), is_batch: false };
        // A decision without an answer is repeated while the request is pending.
        drop(approvals(&self.client, server).decide_approval(request).await);
    }

    /// Reads a request, and records the decision before it is sent.
    async fn read(&mut self, server: usize, id: &str) -> Option<Plan> {
        let request = v1::GetApprovalRequest { id: id.to_owned() };
        let read = approvals(&self.client, server).get_approval(request).await.ok()?;
        let v1::Approval { call, preview, .. } = read.into_inner().approval?;
        let agent = call?.agent;
        let arguments: Value = serde_json::from_str(&preview?).ok()?;
        let plan = self.plan(&agent, &arguments);
        self.plans.insert(id.to_owned(), plan);
        if plan != Plan::Ignore {
            let (request, approves) = (id.to_owned(), plan == Plan::Approve);
            let approval = ApprovalEvent::Decided { request, agent, arguments, approves };
            self.client.history.note(NAME, Event::Approval { approval });
        }
        Some(plan)
    }

    fn plan(&mut self, agent: &str, arguments: &Value) -> Plan {
        if !is_own_order(agent, arguments) {
            return Plan::Ignore;
        }
        if self.is_generous {
            return Plan::Approve;
        }
        match self.rng.below(100) {
            0..88 => Plan::Approve,
            88..96 => Plan::Deny,
            _ => Plan::Ignore,
        }
    }
}

/// The requests at a server in a state. Unspecified: in all. `None`: the server does not answer.
pub(super) async fn requests(
    client: &Operator,
    server: usize,
    state: ApprovalState,
) -> Option<Vec<v1::Approval>> {
    let mut all = Vec::new();
    let mut page =
        v1::ListApprovalsRequest { state: state.into(), page_size: PAGE, ..Default::default() };
    loop {
        let listed = approvals(client, server).list_approvals(page.clone()).await.ok()?;
        let v1::ListApprovalsResponse { approvals, next_page_token } = listed.into_inner();
        all.extend(approvals);
        if next_page_token.is_empty() {
            return Some(all);
        }
        page.page_token = next_page_token;
    }
}

fn approvals(client: &Operator, server: usize) -> ApprovalServiceClient<Authorized> {
    ApprovalServiceClient::new(client.channel(server))
}
