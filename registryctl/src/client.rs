//! The connection to the registry, and the limits of talking to it.

use std::{future::Future, sync::Arc, time::Duration};

use registry_core::Revision;
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient, audit_service_client::AuditServiceClient,
    discovery_service_client::DiscoveryServiceClient, graph_service_client::GraphServiceClient,
    history_service_client::HistoryServiceClient, registry_service_client::RegistryServiceClient,
    sbom_service_client::SbomServiceClient, sync_service_client::SyncServiceClient,
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
};

/// A channel on which every call shows who makes it.
pub(crate) type Connection = InterceptedService<Channel, Credentials>;

/// The largest answer that is taken.
const ANSWER_BYTES: usize = 64 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Most entities or commits a page.
pub(crate) const PAGE_SIZE: u32 = 500;

/// A server of the registry, and how it is reached.
#[derive(Debug)]
struct Server {
    address: Address,
    endpoint: Endpoint,
    credentials: Credentials,
}

/// A connection to one registry, at one of its servers.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    servers: Arc<[Server]>,
    /// Which of them is asked.
    at: usize,
    /// How long a connection, and the first answer over it, may take.
    patience: Duration,
    /// The registry's id, as far as that server says it.
    registry: Option<String>,
    channel: Connection,
}

impl Client {
    /// Connects to the first server that answers, or says at once why none does.
    pub(crate) async fn connect(globals: &Globals) -> Result<Self, Failure> {
        let servers = globals.registry.iter().map(|address| Server::new(address, globals));
        let servers: Arc<[Server]> = servers.collect::<Result<_, _>>()?;
        Self::first_of(servers, 0, patience(globals)).await
    }

    /// Connects to the next server that answers, which must be of the same registry.
    pub(crate) async fn elsewhere(&self) -> Result<Self, Failure> {
        let next = Self::first_of(self.servers.clone(), self.at + 1, self.patience).await?;
        match (&self.registry, &next.registry) {
            (Some(ours), Some(other)) if ours != other => Err(Failure::Refused {
                reason: "REGISTRY_MISMATCH".to_owned(),
                message: format!(
                    "{} is of the registry {other}, but {} is of {ours}: --registry takes \
                     several servers of one registry",
                    next.address(),
                    self.address()
                ),
            }),
            _ => Ok(next),
        }
    }

    /// Whether there is another server to ask.
    pub(crate) fn has_others(&self) -> bool {
        self.servers.len() > 1
    }

    /// The first that answers, from this one on.
    async fn first_of(
        servers: Arc<[Server]>,
        first: usize,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let mut unreachable: Vec<(String, String)> = Vec::new();
        for at in (first..first + servers.len()).map(|at| at % servers.len()) {
            match Self::open(servers.clone(), at, patience).await {
                Err(Failure::Unreachable { address, reason }) => {
                    unreachable.push((address, reason));
                }
                outcome => return outcome,
            }
        }
        let (addresses, reasons): (Vec<_>, Vec<_>) = unreachable.into_iter().unzip();
        Err(Failure::Unreachable { address: addresses.join(","), reason: reasons.join("; ") })
    }

    async fn open(servers: Arc<[Server]>, at: usize, patience: Duration) -> Result<Self, Failure> {
        let Server { address, endpoint, credentials } = &servers[at];
        let unreachable = |reason: String| Failure::Unreachable {
            address: address.to_string(),
            reason: reason.to_lowercase(),
        };
        let channel = endpoint.connect().await.map_err(|e| unreachable(root_cause(&e)))?;
        let channel = InterceptedService::new(channel, credentials.clone());
        let mut client = Self { at, patience, registry: None, channel, servers: servers.clone() };
        // A connection alone says little: what accepts it may be no more than a port.
        if client.has_others() {
            match timeout(patience, client.registry_id()).await {
                Ok(Err(failure @ Failure::Unreachable { .. })) => return Err(failure),
                Ok(id) => client.registry = id.ok(),
                Err(_) => {
                    let seconds = patience.as_secs();
                    return Err(unreachable(format!("no answer within {seconds} s")));
                }
            }
        }
        Ok(client)
    }

    /// Which registry answers, whatever else it says.
    async fn registry_id(&self) -> Result<String, Failure> {
        let kind = v1::Kind::Tool.into();
        let whatever = v1::Requirement { kind, name: "any".to_owned(), ..Default::default() };
        let asked = v1::ResolveRequest {
            requirements: vec![whatever],
            partial: true,
            ..Default::default()
        };
        Ok(self.answer(self.graph().resolve(request(asked))).await?.registry_id)
    }

    fn address(&self) -> &Address {
        &self.servers[self.at].address
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

    /// The channel, for Sync streams.
    pub(crate) fn connection(&self) -> Connection {
        self.channel.clone()
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
        Failure::from_status(self.address(), status)
    }
}

impl Server {
    fn new(address: &Address, globals: &Globals) -> Result<Self, Failure> {
        let patience = patience(globals);
        let (credentials, tls) = Credentials::read(&globals.access, address)?;
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
        Ok(Self { address: address.clone(), endpoint, credentials })
    }
}

/// How long a connection may take.
fn patience(globals: &Globals) -> Duration {
    Duration::from_secs(globals.connect_timeout.into())
}

/// A request that says how long its answer may take.
pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(PATIENCE);
    request
}
