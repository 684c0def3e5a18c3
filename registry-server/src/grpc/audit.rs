//! `AuditService`: checkpoints, proofs, the verification of the log, and the trail of tokens.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use registry_core::{Digest, Revision, proof::Proof};
use registry_proto::{convert, v1, v1::audit_service_server::AuditService};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status};

use super::status;
use crate::{
    app::{
        App,
        page::{self, Page},
        tokens,
    },
    store::{AccessEvent, Finding, Findings, NewAccessEvent, Progress},
};

/// So many verifications run at once: each reads everything.
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
        _request: Request<v1::GetCheckpointRequest>,
    ) -> Result<Response<v1::GetCheckpointResponse>, Status> {
        let checkpoint = self.app.auditor.checkpoint().await?;
        let verifier_key = self.app.auditor.verifier_key().to_string();
        Ok(Response::new(v1::GetCheckpointResponse { checkpoint, verifier_key }))
    }

    async fn prove(
        &self,
        request: Request<v1::ProveRequest>,
    ) -> Result<Response<v1::ProveResponse>, Status> {
        let v1::ProveRequest { revision, since_revision } = request.into_inner();
        // Revision 0 is the empty log, which has no commit.
        let revision = Revision(revision);
        let proof = self.app.auditor.prove(revision, Revision(since_revision)).await?;
        let Proof { checkpoint, previous_chain, commit, inclusion, consistency } = proof;
        Ok(Response::new(v1::ProveResponse {
            checkpoint,
            previous_chain: Bytes::copy_from_slice(previous_chain.as_bytes()),
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
        // It ends with the answer's stream, so with a caller that goes.
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
        let v1::ListAccessEventsRequest { after_number, page_size, page_token } =
            request.into_inner();
        let size = page::size(page_size)?;
        let Page { items, next_page_token } =
            tokens::list_events(&self.app.store, after_number, size, &page_token).await?;
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
    let write = |Finding { location, problem }| v1::LogFinding { place: location, problem };
    let findings = listed.into_iter().map(write).collect();
    v1::VerifyLogResponse {
        revision: revision.0,
        head: head.0,
        findings,
        done,
        more_findings: more,
    }
}

fn access_event(AccessEvent { number, event, subject, what }: AccessEvent) -> v1::AccessEvent {
    let NewAccessEvent { at, principal, method, address, detail } = what;
    let at = Some(convert::timestamp(at));
    v1::AccessEvent { number, at, principal, method, address, event, subject, detail }
}

fn bytes(digest: &Digest) -> Bytes {
    Bytes::copy_from_slice(digest.as_bytes())
}
