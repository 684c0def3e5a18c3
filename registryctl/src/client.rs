//! The connection to the registry, and the limits of talking to it.
//!
//! Deliberately absent: what is said; the commands do that.

use std::{future::Future, time::Duration};

use registry_core::Revision;
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient, audit_service_client::AuditServiceClient,
    discovery_service_client::DiscoveryServiceClient, graph_service_client::GraphServiceClient,
    history_service_client::HistoryServiceClient, registry_service_client::RegistryServiceClient,
    sbom_service_client::SbomServiceClient, sync_service_client::SyncServiceClient,
};
use tonic::{
    Request, Response, Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::{
    cli::{Address, Globals},
    credentials::Credentials,
    failure::{Failure, root_cause},
};

/// A channel on which every call shows who makes it.
pub(crate) type Connection = InterceptedService<Channel, Credentials>;

/// The largest answer that is taken.
const ANSWER_BYTES: usize = 64 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Most entities or commits a page.
pub(crate) const PAGE_SIZE: u32 = 500;

/// A connection to one registry.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: Address,
    channel: Connection,
}

impl Client {
    /// Connects to the first server that can be reached, or says at once why none can.
    pub(crate) async fn connect(globals: &Globals) -> Result<Self, Failure> {
        let mut unreachable: Option<(String, String)> = None;
        for address in &globals.registry {
            match Self::connect_to(address, globals).await {
                Err(Failure::Unreachable { address, reason }) => {
                    unreachable = Some(match unreachable {
                        None => (address, reason),
                        Some((addresses, reasons)) => {
                            (format!("{addresses},{address}"), format!("{reasons}; {reason}"))
                        }
                    });
                }
                outcome => return outcome,
            }
        }
        let (address, reason) = unreachable.unwrap_or_default();
        Err(Failure::Unreachable { address, reason })
    }

    async fn connect_to(address: &Address, globals: &Globals) -> Result<Self, Failure> {
        let address = address.clone();
        let patience = Duration::from_secs(globals.connect_timeout.into());
        let unreachable = |reason: String| Failure::Unreachable {
            address: address.to_string(),
            reason: reason.to_lowercase(),
        };
        let (credentials, tls) = Credentials::read(&globals.access, &address)?;
        let invalid = |e: tonic::transport::Error| Failure::usage(root_cause(&e));
        let endpoint = Endpoint::from_shared(address.to_string()).map_err(invalid)?;
        let endpoint = match tls {
            Some(tls) => endpoint.tls_config(tls).map_err(invalid)?,
            None => endpoint,
        };
        let endpoint = endpoint
            .connect_timeout(patience)
            .http2_keep_alive_interval(2 * patience)
            .keep_alive_timeout(patience)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(|e| unreachable(root_cause(&e)))?;
        Ok(Self { address, channel: InterceptedService::new(channel, credentials) })
    }

    pub(crate) fn access(&self) -> AccessServiceClient<Connection> {
        AccessServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn registry(&self) -> RegistryServiceClient<Connection> {
        RegistryServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn graph(&self) -> GraphServiceClient<Connection> {
        GraphServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn history(&self) -> HistoryServiceClient<Connection> {
        HistoryServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn discovery(&self) -> DiscoveryServiceClient<Connection> {
        DiscoveryServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn sbom(&self) -> SbomServiceClient<Connection> {
        SbomServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn audit(&self) -> AuditServiceClient<Connection> {
        AuditServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn sync(&self) -> SyncServiceClient<Connection> {
        SyncServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    /// The revision that the registry is at.
    pub(crate) async fn head(&self) -> Result<Revision, Failure> {
        let one = request(v1::ListRequest { page_size: 1, ..Default::default() });
        Ok(Revision(self.answer(self.registry().list(one)).await?.revision))
    }

    /// Waits for the answer to one call.
    pub(crate) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        call.await.map(Response::into_inner).map_err(|status| self.failure(&status))
    }

    /// What a refused or failed call means.
    pub(crate) fn failure(&self, status: &Status) -> Failure {
        Failure::from_status(&self.address, status)
    }
}

/// A request that says how long its answer may take.
pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(PATIENCE);
    request
}
