//! The connection to the registry.

use std::{future::Future, sync::Arc, time::Duration};

use registry_core::Revision;
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient,
    approval_service_client::ApprovalServiceClient, audit_service_client::AuditServiceClient,
    discovery_service_client::DiscoveryServiceClient, graph_service_client::GraphServiceClient,
    history_service_client::HistoryServiceClient, ledger_service_client::LedgerServiceClient,
    registry_service_client::RegistryServiceClient, sbom_service_client::SbomServiceClient,
    sync_service_client::SyncServiceClient, trace_service_client::TraceServiceClient,
    usage_service_client::UsageServiceClient,
};
use tokio::time::timeout;
use tonic::{
    Request, Response, Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::{
    address::Address,
    cli::Globals,
    credentials::Credentials,
    failure::{Failure, root_cause},
    retry::RetryRateLimited,
};

/// A channel that sends the credentials with every call.
pub(crate) type Authenticated = InterceptedService<Channel, Credentials>;
type Connection = RetryRateLimited<Authenticated>;

/// Maximum size of a response.
const ANSWER_BYTES: usize = 64 << 20;
/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Page size of entities and commits.
pub(crate) const PAGE_SIZE: i32 = 500;

/// A server of the registry.
#[derive(Debug)]
struct Server {
    address: Address,
    endpoint: Endpoint,
    credentials: Credentials,
}

/// A connection to one server of a registry.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    servers: Arc<[Server]>,
    /// Index of the connected server.
    current: usize,
    /// Timeout of connecting, and of the first response.
    connect_timeout: Duration,
    /// The id of the registry; known if there are several servers.
    registry: Option<String>,
    channel: Connection,
}

impl Client {
    /// Connects to the first server that responds.
    pub(crate) async fn connect(globals: &Globals) -> Result<Self, Failure> {
        let servers = globals.registry.iter().map(|address| Server::new(address, globals));
        let servers: Arc<[Server]> = servers.collect::<Result<_, _>>()?;
        Self::connect_from(servers, 0, connect_timeout(globals)).await
    }

    /// Connects to the next server that responds. It must belong to the same registry.
    pub(crate) async fn next_server(&self) -> Result<Self, Failure> {
        let servers = self.servers.clone();
        let next = Self::connect_from(servers, self.current + 1, self.connect_timeout).await?;
        match (&self.registry, &next.registry) {
            (Some(ours), Some(other)) if ours != other => Err(Failure::RequestRejected {
                reason: "REGISTRY_MISMATCH".to_owned(),
                message: format!(
                    "{} belongs to the registry {other}, and {} to {ours}; --registry accepts \
                     several servers of one registry only",
                    next.address(),
                    self.address()
                ),
            }),
            _ => Ok(next),
        }
    }

    pub(crate) fn has_others(&self) -> bool {
        self.servers.len() > 1
    }

    /// Tries every server once, starting with the given index.
    async fn connect_from(
        servers: Arc<[Server]>,
        first: usize,
        connect_timeout: Duration,
    ) -> Result<Self, Failure> {
        let mut unreachable = Vec::new();
        for index in (first..first + servers.len()).map(|index| index % servers.len()) {
            match Self::open(servers.clone(), index, connect_timeout).await {
                Err(Failure::Unreachable(servers)) => unreachable.extend(servers),
                outcome => return outcome,
            }
        }
        Err(Failure::Unreachable(unreachable))
    }

    async fn open(
        servers: Arc<[Server]>,
        current: usize,
        connect_timeout: Duration,
    ) -> Result<Self, Failure> {
        let Server { address, endpoint, credentials } = &servers[current];
        let unreachable = |reason: String| Failure::unreachable(address, reason.to_lowercase());
        let channel = endpoint.connect().await.map_err(|e| unreachable(root_cause(&e)))?;
        let channel = InterceptedService::new(channel, credentials.clone());
        let channel = RetryRateLimited::new(channel);
        let servers = servers.clone();
        let mut client = Self { current, connect_timeout, registry: None, channel, servers };
        // An accepted connection alone does not prove that a registry responds.
        if client.has_others() {
            match timeout(connect_timeout, client.registry_id()).await {
                Ok(Err(failure @ Failure::Unreachable { .. })) => return Err(failure),
                Ok(id) => client.registry = id.ok(),
                Err(_) => {
                    let seconds = connect_timeout.as_secs();
                    return Err(unreachable(format!("no response within {seconds} s")));
                }
            }
        }
        Ok(client)
    }

    async fn registry_id(&self) -> Result<String, Failure> {
        Ok(self.position().await?.registry_id)
    }

    /// The id and the revision of the registry.
    async fn position(&self) -> Result<v1::LogPosition, Failure> {
        let call = request(v1::GetRegistryInfoRequest::default());
        let info = self.answer(self.registry().get_registry_info(call)).await?;
        info.head.ok_or_else(|| Failure::invalid_response("the position is missing"))
    }

    fn address(&self) -> &Address {
        &self.servers[self.current].address
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

    pub(crate) fn ledger(&self) -> LedgerServiceClient<Connection> {
        LedgerServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn approvals(&self) -> ApprovalServiceClient<Connection> {
        ApprovalServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn usage(&self) -> UsageServiceClient<Connection> {
        UsageServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn traces(&self) -> TraceServiceClient<Connection> {
        TraceServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn audit(&self) -> AuditServiceClient<Connection> {
        AuditServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    pub(crate) fn sync(&self) -> SyncServiceClient<Connection> {
        SyncServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    /// The channel for Sync streams.
    pub(crate) fn stream_channel(&self) -> Authenticated {
        self.channel.inner().clone()
    }

    /// The current revision.
    pub(crate) async fn head(&self) -> Result<Revision, Failure> {
        Ok(Revision(self.position().await?.revision))
    }

    /// The response of a call.
    pub(crate) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        call.await.map(Response::into_inner).map_err(|status| self.failure(&status))
    }

    /// The failure of a call.
    pub(crate) fn failure(&self, status: &Status) -> Failure {
        Failure::from_status(self.address(), status)
    }
}

impl Server {
    fn new(address: &Address, globals: &Globals) -> Result<Self, Failure> {
        let connect_timeout = connect_timeout(globals);
        let (credentials, tls) = Credentials::read(&globals.access, address)?;
        let invalid = |e: tonic::transport::Error| Failure::usage(root_cause(&e));
        let endpoint = Endpoint::from_shared(address.to_string()).map_err(invalid)?;
        let endpoint = match tls {
            // The timeout of connecting below ends with TCP.
            Some(tls) => endpoint.tls_config(tls.timeout(connect_timeout)).map_err(invalid)?,
            None => endpoint,
        };
        let endpoint = endpoint
            .connect_timeout(connect_timeout)
            .http2_keep_alive_interval(2 * connect_timeout)
            .keep_alive_timeout(connect_timeout)
            .keep_alive_while_idle(true);
        Ok(Self { address: address.clone(), endpoint, credentials })
    }
}

fn connect_timeout(globals: &Globals) -> Duration {
    Duration::from_secs(globals.connect_timeout.into())
}

/// A request with the timeout of calls.
pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
