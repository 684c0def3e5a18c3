//! Sagas without a caller: recovery after a crash, and retries by an operator.

use std::sync::Arc;

use gateway_compose::{ResumedSaga, RetryError, RunOwner, SagaHost};
use gateway_policy::CallerIdentity;
use gateway_upstream::RequestContext;
use registry_core::{Catalog, Key};
use tokio::sync::watch;

use super::{Gateway, steps::Runner};
use crate::audit::AuditParent;

/// Compensates the sagas that a crash interrupted. Needs a Tokio runtime.
pub(crate) fn recover_sagas(gateway: &Arc<Gateway>) {
    gateway_compose::recover(gateway.compositions(), &host(gateway));
}

/// Retries the failed compensations of a saga.
pub(crate) async fn retry_saga(gateway: &Arc<Gateway>, id: &str) -> Result<(), RetryError> {
    gateway_compose::retry(gateway.compositions(), &host(gateway), id).await
}

fn host(gateway: &Arc<Gateway>) -> Arc<dyn SagaHost> {
    Arc::new(Host(Arc::clone(gateway)))
}

#[derive(Debug)]
struct Host(Arc<Gateway>);

impl SagaHost for Host {
    fn find(&self, tool: &Key, pointer: &str, identity: &CallerIdentity) -> Option<ResumedSaga> {
        let Self(gateway) = self;
        let snapshot = gateway.views().now();
        let served = gateway.views().registered(&snapshot, tool)?;
        let composed = served.composed()?;
        let saga = composed.plan().saga(pointer)?;
        let caller = gateway.identify(&snapshot, identity, None);
        let quota_key = caller.principal(identity);
        let revision = snapshot.catalog.revision();
        let owner = RunOwner { identity: identity.clone(), quota_key, revision };
        // The composition counts. The hops before it are not in the journal.
        let governance = snapshot.governance.as_ref();
        let hops = governance.filter(|governance| governance.counts_hops()).map(|_| 1);
        let caller_key = identity.quota_key();
        let runner = Runner {
            gateway: Arc::clone(gateway),
            composed: Arc::clone(composed),
            owner: owner.clone(),
            context: RequestContext { caller: caller_key, hops, ..RequestContext::default() },
            client: None,
            parent: AuditParent::without_caller(tool, caller, revision),
            // Only compensations run, which need no approval.
            approved: Arc::default(),
        };
        Some(ResumedSaga {
            plan: Arc::clone(composed.plan()),
            saga,
            runner: Arc::new(runner),
            owner,
            servers: composed.servers().iter().cloned().collect(),
            response_bytes: gateway.settings().upstream.response_bytes,
        })
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.0.views().subscribe().0
    }

    fn has_catalog(&self) -> bool {
        self.0.views().now().has_catalog()
    }

    fn is_reachable(&self, server: &Key) -> bool {
        self.0.upstreams().is_up(server).unwrap_or(true)
    }
}
