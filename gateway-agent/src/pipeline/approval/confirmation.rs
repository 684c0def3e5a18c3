//! The confirmation of a call by its caller, for policies with the approver `caller`: a question to the
//! client (elicitation).

use std::time::Duration;

use approval::{RequestStatus, State};
use gateway_protocol::jsonrpc::Object;
use gateway_upstream::ClientChannel;
use policy::{DeniedApproval, Finding, Reason};
use registry_core::visible::escape_invisible;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::time::timeout;

use super::{ApprovalOrder, account};
use crate::approvals::NoApproval;

/// Maximum wait for the answer of a client.
const ANSWER_LIMIT: Duration = Duration::from_mins(10);
/// Maximum length of the arguments in a question, in bytes.
const SHOWN_BYTES: usize = 2_000;

impl ApprovalOrder<'_> {
    /// Whether the call waits for the confirmation of its caller.
    pub(super) fn needs_confirmation(&self, status: &RequestStatus) -> bool {
        let is_demanded = self.rules.iter().any(|rule| rule.approval.is_confirmation());
        status.state == State::Pending && !status.is_confirmed && is_demanded
    }

    /// Asks the client to confirm the call, and records the answer.
    pub(super) async fn confirmed(
        &self,
        status: RequestStatus,
        arguments: String,
    ) -> Result<RequestStatus, Finding> {
        let (gateway, call) = (self.inspecting.gateway, self.inspecting.call);
        let can_answer = call.context.capabilities.has("elicitation");
        let Some(client) = call.client.as_ref().filter(|_| can_answer) else {
            let problem = "the caller must confirm the call, and its client cannot: it did not declare \
                           the capability elicitation";
            return Err(self.unavailable(&NoApproval::Refused(problem.to_owned())));
        };
        let arguments = escape_invisible(arguments);
        if arguments.len() > SHOWN_BYTES {
            let problem = format!(
                "the caller must confirm the call, and its arguments have {} bytes; a question shows at \
                 most {SHOWN_BYTES}; shorten them, or select arguments with `show` in the policy",
                arguments.len()
            );
            return Err(self.unavailable(&NoApproval::Refused(problem)));
        }
        let tool = self.served.listed_name();
        let question = format!("Call {tool} with the arguments {arguments}?");
        let caller = account(gateway, &call.caller.claim);
        let approvals = gateway.approvals();
        if is_accepted(client, &question).await {
            let confirmed = approvals.confirm(status.id, &caller).await;
            return confirmed.map_err(|failure| self.unavailable(&failure));
        }
        // The request stays if the store does not answer, and the next call asks again.
        let _ = approvals.cancel(status.id, &caller).await;
        let (id, reason) = (status.id.to_string(), "the caller did not confirm it".to_owned());
        let denied = DeniedApproval { id, reason, until: None };
        Err(self.finding(Reason::ApprovalDenied(Box::new(denied))))
    }
}

/// Whether the user of the client accepts. No answer is no confirmation.
async fn is_accepted(client: &ClientChannel, question: &str) -> bool {
    let schema = json!({ "type": "object", "properties": {} });
    let params = json!({ "mode": "form", "message": question, "requestedSchema": schema });
    let Ok(params) = to_raw_value(&params) else { return false };
    let answer = timeout(ANSWER_LIMIT, client.ask("elicitation/create", Some(&*params))).await;
    let Ok(Some(Ok(answer))) = answer else { return false };
    let action = Object::parse(&answer).ok().and_then(|members| members.find("action"));
    action.map(RawValue::get) == Some("\"accept\"")
}
