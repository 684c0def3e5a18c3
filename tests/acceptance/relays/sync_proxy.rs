//! A proxy between a relay and its registry that forwards Sync messages and rewrites or drops them
//! for a test.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use acceptance::Registry;
use futures_util::{StreamExt as _, stream::BoxStream};
use registry_proto::v1::{
    self, ListGatewaysRequest, ListGatewaysResponse, SyncRequest, SyncResponse,
    sync_service_client::SyncServiceClient,
    sync_service_server::{SyncService, SyncServiceServer},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// Rewrites a message of the registry; `None` drops it.
pub(super) type Rewrite = Arc<dyn Fn(SyncResponse) -> Option<SyncResponse> + Send + Sync>;

pub(super) struct SyncProxy {
    pub(super) address: SocketAddr,
    change: Arc<Mutex<Rewrite>>,
    serving: JoinHandle<()>,
}

impl SyncProxy {
    pub(super) async fn start(registry: &Registry) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let change = Arc::new(Mutex::new(Arc::new(Some) as Rewrite));
        let pass = Forwarder { upstream: registry.url(), change: change.clone() };
        let serving = Server::builder().add_service(SyncServiceServer::new(pass));
        let serving = tokio::spawn(async move {
            serving.serve_with_incoming(TcpListenerStream::new(listener)).await.expect("it serves");
        });
        Self { address, change, serving }
    }

    /// Applies this function to all messages from now on.
    pub(super) fn rewrite(
        &self,
        change: impl Fn(SyncResponse) -> Option<SyncResponse> + Send + Sync + 'static,
    ) {
        *self.change.lock().expect("not poisoned") = Arc::new(change);
    }
}

impl Drop for SyncProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Forwarder {
    upstream: String,
    change: Arc<Mutex<Rewrite>>,
}

#[tonic::async_trait]
impl SyncService for Forwarder {
    type SyncStream = BoxStream<'static, Result<SyncResponse, Status>>;

    async fn sync(
        &self,
        request: Request<Streaming<SyncRequest>>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        let requests = request.into_inner().filter_map(|said| std::future::ready(said.ok()));
        let client = SyncServiceClient::connect(self.upstream.clone()).await;
        let mut client = client.map_err(|e| Status::unavailable(e.to_string()))?;
        let answers = client.sync(requests).await?.into_inner();
        let change = self.change.clone();
        let changed = answers.filter_map(move |answer| {
            let change = change.lock().expect("not poisoned").clone();
            std::future::ready(answer.map(|answer| change(answer)).transpose())
        });
        Ok(Response::new(changed.boxed()))
    }

    async fn list_gateways(
        &self,
        _: Request<ListGatewaysRequest>,
    ) -> Result<Response<ListGatewaysResponse>, Status> {
        Ok(Response::new(v1::ListGatewaysResponse::default()))
    }
}
