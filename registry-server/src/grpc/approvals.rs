//! `ApprovalService`: messages of gateways, and the tasks of people. A relay forwards the former.

mod encode;
mod read;

use std::{mem, sync::Arc};

use registry_proto::v1::{
    self, approval_service_server::ApprovalService, confirm_approval_response,
    request_approval_response, withdraw_approval_response,
};
use tonic::{Request, Response, Status};

use super::{Service, access, deadline::begin_write, ledger::reported_gateway};
use crate::app::{
    approvals::{ApprovalDetail, Approvals, Error, GatewayApprovals, Viewer},
    page::Page,
};

impl Service {
    /// The approvals of the registry, for people. A relay has none.
    fn approvals(&self) -> Result<&Arc<Approvals>, Status> {
        match &self.app.approvals {
            GatewayApprovals::Own(approvals) => Ok(approvals),
            GatewayApprovals::Upstream(upstream) => {
                Err(Error::Relay(upstream.upstream().to_owned()).into())
            }
        }
    }
}

/// The person that calls.
fn viewer<T>(request: &Request<T>) -> Result<Viewer, Status> {
    Ok(Viewer::new(&*access::principal(request)?))
}

/// The principal of the gateway of a message, and the message with it.
macro_rules! gateway_message {
    ($request:ident) => {{
        let caller = access::principal(&$request)?;
        let gateway = reported_gateway(&caller, mem::take(&mut $request.get_mut().gateway))?;
        begin_write(&$request);
        let mut message = $request.into_inner();
        message.gateway = gateway.to_string();
        (gateway, message)
    }};
}

#[tonic::async_trait]
impl ApprovalService for Service {
    async fn get_arguments_key(
        &self,
        request: Request<v1::GetArgumentsKeyRequest>,
    ) -> Result<Response<v1::GetArgumentsKeyResponse>, Status> {
        let answer = match &self.app.approvals {
            GatewayApprovals::Own(approvals) => {
                let key = approvals.arguments_key().to_vec().into();
                v1::GetArgumentsKeyResponse { key }
            }
            GatewayApprovals::Upstream(upstream) => {
                let forwarding = upstream.client().arguments_key(request.into_inner());
                upstream.forward(forwarding).await?
            }
        };
        Ok(Response::new(answer))
    }

    async fn request_approval(
        &self,
        mut request: Request<v1::RequestApprovalRequest>,
    ) -> Result<Response<v1::RequestApprovalResponse>, Status> {
        let (_, message) = gateway_message!(request);
        let answer = match &self.app.approvals {
            GatewayApprovals::Own(approvals) => {
                use request_approval_response::Outcome;
                let (outcome, page_url) = match approvals.open(read::wanted(message)?).await? {
                    Ok(request) => {
                        let approval = encode::approval(&request, approvals.now());
                        (Outcome::Approval(approval), approvals.page_url(request.id))
                    }
                    Err(refusal) => {
                        (Outcome::Refusal(encode::open_refusal(refusal)), String::new())
                    }
                };
                v1::RequestApprovalResponse { outcome: Some(outcome), page_url }
            }
            GatewayApprovals::Upstream(upstream) => {
                upstream.forward(upstream.client().request(message)).await?
            }
        };
        Ok(Response::new(answer))
    }

    async fn confirm_approval(
        &self,
        mut request: Request<v1::ConfirmApprovalRequest>,
    ) -> Result<Response<v1::ConfirmApprovalResponse>, Status> {
        let (_, message) = gateway_message!(request);
        let answer = match &self.app.approvals {
            GatewayApprovals::Own(approvals) => {
                use confirm_approval_response::Outcome;
                let (id, caller) =
                    (read::id(&message.id)?, read::account("caller", message.caller)?);
                let outcome = match approvals.confirm(id, &caller).await? {
                    Ok(request) => Outcome::Approval(encode::approval(&request, approvals.now())),
                    Err(refusal) => Outcome::Refusal(encode::confirm_refusal(refusal)),
                };
                v1::ConfirmApprovalResponse { outcome: Some(outcome) }
            }
            GatewayApprovals::Upstream(upstream) => {
                upstream.forward(upstream.client().confirm(message)).await?
            }
        };
        Ok(Response::new(answer))
    }

    async fn withdraw_approval(
        &self,
        mut request: Request<v1::WithdrawApprovalRequest>,
    ) -> Result<Response<v1::WithdrawApprovalResponse>, Status> {
        let (_, message) = gateway_message!(request);
        let answer = match &self.app.approvals {
            GatewayApprovals::Own(approvals) => {
                use withdraw_approval_response::Outcome;
                let (id, caller) =
                    (read::id(&message.id)?, read::account("caller", message.caller)?);
                let outcome = match approvals.withdraw(id, &caller).await? {
                    Ok(request) => Outcome::Approval(encode::approval(&request, approvals.now())),
                    Err(refusal) => Outcome::Refusal(encode::cancel_refusal(refusal)),
                };
                v1::WithdrawApprovalResponse { outcome: Some(outcome) }
            }
            GatewayApprovals::Upstream(upstream) => {
                upstream.forward(upstream.client().withdraw(message)).await?
            }
        };
        Ok(Response::new(answer))
    }

    async fn claim_approval(
        &self,
        mut request: Request<v1::ClaimApprovalRequest>,
    ) -> Result<Response<v1::ClaimApprovalResponse>, Status> {
        let (gateway, message) = gateway_message!(request);
        let answer = match &self.app.approvals {
            GatewayApprovals::Own(approvals) => {
                let claimed = approvals.claim(&gateway, &read::claim(message)?).await?;
                let refusal = claimed.err().map(encode::consume_refusal);
                v1::ClaimApprovalResponse { refusal }
            }
            GatewayApprovals::Upstream(upstream) => {
                upstream.forward(upstream.client().claim(message)).await?
            }
        };
        Ok(Response::new(answer))
    }

    async fn report_approval_outcome(
        &self,
        mut request: Request<v1::ReportApprovalOutcomeRequest>,
    ) -> Result<Response<v1::ReportApprovalOutcomeResponse>, Status> {
        let (gateway, message) = gateway_message!(request);
        let answer = match &self.app.approvals {
            GatewayApprovals::Own(approvals) => {
                let settled = approvals.settle(&gateway, &read::settlement(&message)?).await?;
                let refusal = settled.err().map(encode::settle_refusal);
                v1::ReportApprovalOutcomeResponse { refusal }
            }
            GatewayApprovals::Upstream(upstream) => {
                upstream.forward(upstream.client().settle(message)).await?
            }
        };
        Ok(Response::new(answer))
    }

    async fn list_approvals(
        &self,
        request: Request<v1::ListApprovalsRequest>,
    ) -> Result<Response<v1::ListApprovalsResponse>, Status> {
        let (approvals, viewer) = (self.approvals()?, viewer(&request)?);
        let mut request = request.into_inner();
        let page = page_request!("ListApprovals", request);
        let listed = approvals.list(&viewer, read::filter(&request)?, &page).await?;
        let Page { items, next_page_token } = listed;
        let now = approvals.now();
        let approvals = items.iter().map(|request| encode::approval(request, now)).collect();
        Ok(Response::new(v1::ListApprovalsResponse { approvals, next_page_token }))
    }

    async fn get_approval(
        &self,
        request: Request<v1::GetApprovalRequest>,
    ) -> Result<Response<v1::GetApprovalResponse>, Status> {
        let (approvals, viewer) = (self.approvals()?, viewer(&request)?);
        let id = read::id(&request.into_inner().id)?;
        let ApprovalDetail { request, steps } = approvals.show(&viewer, id).await?;
        let approval = Some(encode::approval(&request, approvals.now()));
        let steps = steps.iter().map(encode::step).collect();
        Ok(Response::new(v1::GetApprovalResponse { approval, steps }))
    }

    async fn decide_approval(
        &self,
        request: Request<v1::DecideApprovalRequest>,
    ) -> Result<Response<v1::DecideApprovalResponse>, Status> {
        let (approvals, viewer) = (self.approvals()?, viewer(&request)?);
        begin_write(&request);
        let wanted = read::decision(request.into_inner())?;
        let decided = approvals.decide(&viewer, &wanted).await?;
        let approval = Some(encode::approval(&decided, approvals.now()));
        Ok(Response::new(v1::DecideApprovalResponse { approval }))
    }

    async fn cancel_approval(
        &self,
        request: Request<v1::CancelApprovalRequest>,
    ) -> Result<Response<v1::CancelApprovalResponse>, Status> {
        let (approvals, viewer) = (self.approvals()?, viewer(&request)?);
        begin_write(&request);
        let id = read::id(&request.into_inner().id)?;
        let cancelled = approvals.cancel(&viewer, id).await?;
        let approval = Some(encode::approval(&cancelled, approvals.now()));
        Ok(Response::new(v1::CancelApprovalResponse { approval }))
    }

    async fn list_standing_grants(
        &self,
        request: Request<v1::ListStandingGrantsRequest>,
    ) -> Result<Response<v1::ListStandingGrantsResponse>, Status> {
        let (approvals, viewer) = (self.approvals()?, viewer(&request)?);
        let mut request = request.into_inner();
        let page = page_request!("ListStandingGrants", request);
        let Page { items, next_page_token } = approvals.list_grants(&viewer, &page).await?;
        let grants = items.iter().map(encode::grant).collect();
        Ok(Response::new(v1::ListStandingGrantsResponse { grants, next_page_token }))
    }

    async fn revoke_standing_grant(
        &self,
        request: Request<v1::RevokeStandingGrantRequest>,
    ) -> Result<Response<v1::RevokeStandingGrantResponse>, Status> {
        let (approvals, viewer) = (self.approvals()?, viewer(&request)?);
        begin_write(&request);
        let id = read::id(&request.into_inner().id)?;
        approvals.revoke_grant(&viewer, id).await?;
        Ok(Response::new(v1::RevokeStandingGrantResponse {}))
    }
}
