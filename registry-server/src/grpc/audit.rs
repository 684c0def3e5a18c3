//! `AuditService`: checkpoints, inclusion proofs, verification of the log, and access events.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use registry_core::{Digest, Revision, proof::Proof};
use registry_proto::{
    convert,
    v1::{self, access_event::Subject, audit_service_server::AuditService},
};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status};

use super::status;
use crate::{
    app::{App, page::Page, tokens},
    store::{AccessEvent, Finding, Findings, NewAccessEvent, Progress},
};

/// The number of concurrent verifications. Each reads the whole database.
const VERIFICATIONS: usize = 1;

/// The service.
pub(super) struct Service {
    app: Arc<App>,
    verifications: Arc<Semaphore>,
}

impl Service {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app, verifications: Arc::new(Semaphore::new(VERIFICATIONS)) }
    }
}

#[tonic::async_trait]
impl AuditService for Service {
    type VerifyLogStream = BoxStream<'static, Result<v1::VerifyLogResponse, Status>>;

    async fn get_checkpoint(
        &self,
        request: Request<v1::GetCheckpointRequest>,
    ) -> Result<Response<v1::GetCheckpointResponse>, Status> {
        let min_revision = Revision(request.into_inner().min_revision);
        self.app.catalogs.reach(min_revision).await?;
        let checkpoint = self.app.auditor.checkpoint().await?;
        let verifier_key = self.app.auditor.verifier_key().to_string();
        Ok(Response::new(v1::GetCheckpointResponse { checkpoint, verifier_key }))
    }

    async fn get_inclusion_proof(
        &self,
        request: Request<v1::GetInclusionProofRequest>,
    ) -> Result<Response<v1::GetInclusionProofResponse>, Status> {
        let v1::GetInclusionProofRequest { revision, since_revision, min_revision } =
            request.into_inner();
        self.app.catalogs.reach(Revision(min_revision)).await?;
        let revision = Revision(revision);
        let proof = self.app.auditor.prove(revision, Revision(since_revision)).await?;
        let Proof { checkpoint, previous_chain, commit, inclusion, consistency } = proof;
        Ok(Response::new(v1::GetInclusionProofResponse {
            checkpoint,
            previous_chain: previous_chain.to_string(),
            commit: commit.into(),
            inclusion: inclusion.iter().map(bytes).collect(),
            consistency: consistency.iter().map(bytes).collect(),
        }))
    }

    async fn verify_log(
        &self,
        _request: Request<v1::VerifyLogRequest>,
    ) -> Result<Response<Self::VerifyLogStream>, Status> {
        let permit = self.verifications.clone().try_acquire_owned();
        let permit = permit.map_err(|_| status::verification_running())?;
        let (told, heard) = mpsc::channel(4);
        let app = self.app.clone();
        // The verification ends with its response stream, so a disconnected client aborts it.
        let verification = AbortOnDropHandle::new(tokio::spawn(async move {
            let _permit = permit;
            app.auditor.verify(told).await
        }));
        let last = async move {
            match verification.await {
                Ok(Ok((progress, findings))) => Ok(response(progress, Some(findings))),
                Ok(Err(error)) => Err(status::of_store(&error)),
                Err(panic) => Err(status::internal(&panic)),
            }
        };
        let steps = ReceiverStream::new(heard).map(|progress| Ok(response(progress, None)));
        Ok(Response::new(steps.chain(stream::once(last)).boxed()))
    }

    async fn list_access_events(
        &self,
        request: Request<v1::ListAccessEventsRequest>,
    ) -> Result<Response<v1::ListAccessEventsResponse>, Status> {
        let mut request = request.into_inner();
        let page = page_request!("ListAccessEvents", request);
        let Page { items, next_page_token } =
            tokens::list_events(&self.app.store, request.after_number, &page).await?;
        let events = items.into_iter().map(access_event).collect();
        Ok(Response::new(v1::ListAccessEventsResponse { events, next_page_token }))
    }
}

fn response(
    Progress { revision, head }: Progress,
    findings: Option<Findings>,
) -> v1::VerifyLogResponse {
    let done = findings.is_some();
    let Findings { listed, more } = findings.unwrap_or_default();
    let write = |Finding { location, problem }| v1::LogFinding { location, problem };
    let findings = listed.into_iter().map(write).collect();
    v1::VerifyLogResponse {
        revision: revision.0,
        head_revision: head.0,
        findings,
        done,
        more_findings_count: more,
    }
}

fn access_event(AccessEvent { number, event, subject, what }: AccessEvent) -> v1::AccessEvent {
    let NewAccessEvent { at, principal, method, address, detail } = what;
    let token = |kind, id| (kind, Some(Subject::TokenId(id)));
    let recovery =
        |kind, number: String| (kind, number.parse().ok().map(Subject::LedgerGeneration));
    let approval = |kind, id| (kind, Some(Subject::ApprovalId(id)));
    let budget = |kind, book| (kind, Some(Subject::Budget(book)));
    let (kind, subject) = match event.as_str() {
        "token-created" => token(v1::AccessEventType::TokenCreated, subject),
        "token-revoked" => token(v1::AccessEventType::TokenRevoked, subject),
        "committed" => {
            (v1::AccessEventType::Committed, subject.parse().ok().map(Subject::Revision))
        }
        "checkpoint-key-replaced" => {
            (v1::AccessEventType::CheckpointKeyReplaced, Some(Subject::VerifierKey(subject)))
        }
        "ledger-recovery-started" => recovery(v1::AccessEventType::LedgerRecoveryStarted, subject),
        "ledger-recovery-ended" => recovery(v1::AccessEventType::LedgerRecoveryEnded, subject),
        "approval-approved" => approval(v1::AccessEventType::ApprovalApproved, subject),
        "approval-denied" => approval(v1::AccessEventType::ApprovalDenied, subject),
        "approval-grant-revoked" => approval(v1::AccessEventType::ApprovalGrantRevoked, subject),
        "budget-adjusted" => budget(v1::AccessEventType::BudgetAdjusted, subject),
        "budget-reclaimed" => budget(v1::AccessEventType::BudgetReclaimed, subject),
        _ => (v1::AccessEventType::Unspecified, None),
    };
    v1::AccessEvent {
        number,
        event_time: Some(convert::timestamp(at)),
        principal,
        authentication: Some(convert::authentication(&method)),
        address,
        r#type: kind.into(),
        subject,
        detail,
    }
}

fn bytes(digest: &Digest) -> Bytes {
    Bytes::copy_from_slice(digest.as_bytes())
}
