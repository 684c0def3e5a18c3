//! The operator of the registry: registers the catalog, and waits until all servers have it.

use std::{sync::Arc, time::Duration};

use acceptance::access::{Authorized, Bearer};
use history_check::{Event, log::RECORDER};
use registry_core::rules::Proposed;
use registry_proto::v1::{self, registry_service_client::RegistryServiceClient};
use tokio::time::{Instant, sleep};
use tonic::{Status, service::interceptor::InterceptedService, transport::Endpoint};

use crate::{history_writer::HistoryWriter, server::Server};

/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit of a commit, also at a server without a fault.
const COMMIT: Duration = Duration::from_secs(20);
/// Time limit until all servers have a commit.
const SPREAD: Duration = Duration::from_secs(2);
/// A transaction with the rules of the previous revision ends within this time.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// A client of all servers.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    pub(crate) servers: Vec<Server>,
    pub(crate) token: String,
    pub(crate) history: Arc<HistoryWriter>,
}

impl Operator {
    /// Registers entities, and returns the revision. Retries until the time is over.
    pub(crate) async fn apply(
        &self,
        id: &str,
        entities: &[Proposed],
        limit: Duration,
    ) -> Option<u64> {
        let message = v1::ApplyChangesRequest {
            changes: entities.iter().map(Into::into).collect(),
            request_id: id.to_owned(),
            ..Default::default()
        };
        let deadline = Instant::now() + limit;
        for server in (0..self.servers.len()).cycle() {
            let mut client = RegistryServiceClient::new(self.channel(server));
            match client.apply_changes(message.clone()).await {
                Ok(applied) => return Some(applied.into_inner().revision),
                Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(50)).await,
                Err(status) => {
                    self.note_failure("apply", &status);
                    return None;
                }
            }
        }
        None
    }

    /// Registers the catalog, which must succeed.
    pub(crate) async fn set_up(&self, entities: &[Proposed]) {
        let revision = self.apply("catalog", entities, COMMIT).await;
        let revision = revision.expect("the catalog is registered");
        assert!(self.has_spread(revision, COMMIT).await, "a server lacks the catalog");
    }

    /// Waits until all servers apply the policies of a revision.
    pub(crate) async fn spread(&self, revision: u64) -> bool {
        let has_spread = self.has_spread(revision, SPREAD).await;
        sleep(IN_FLIGHT).await;
        has_spread
    }

    async fn has_spread(&self, revision: u64, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        for server in 0..self.servers.len() {
            while self.revision(server).await < Some(revision) {
                if Instant::now() > deadline {
                    return false;
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
        true
    }

    async fn revision(&self, server: usize) -> Option<u64> {
        let mut client = RegistryServiceClient::new(self.channel(server));
        let request = v1::ListEntitiesRequest { page_size: 1, ..Default::default() };
        Some(client.list_entities(request).await.ok()?.into_inner().revision)
    }

    /// Records that a request failed.
    pub(crate) fn note_failure(&self, what: &str, status: &Status) {
        let fault = format!("{what}: {:?} {}", status.code(), status.message());
        let event = Event::Fault { fault, repeats: false, resends: false };
        self.history.note(RECORDER, event);
    }

    /// A connection to a server.
    pub(crate) fn channel(&self, server: usize) -> Authorized {
        let address = &self.servers[server].links.calls.address;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let endpoint = endpoint.timeout(TIMEOUT).connect_timeout(TIMEOUT);
        InterceptedService::new(endpoint.connect_lazy(), Bearer(self.token.clone()))
    }
}
