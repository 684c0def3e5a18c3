//! A server that only keeps streams open: the memory that the gRPC library needs for an idle stream.

use std::{future::ready, net::SocketAddr};

use futures_util::{StreamExt as _, stream::BoxStream};
use registry_proto::v1::{
    self,
    sync_service_server::{SyncService, SyncServiceServer},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::peer::Peer;

/// Starts the server as a process of its own.
pub(crate) fn start() -> Peer {
    Peer::start_self(|command, port| {
        command.arg(format!("--idle-server={port}"));
    })
}

/// Serves on a port of the loopback address until the process ends.
pub(crate) async fn serve(port: u16) {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let service = SyncServiceServer::new(IdleService);
    Server::builder().add_service(service).serve(address).await.expect("the port is free");
}

#[derive(Debug)]
struct IdleService;

#[tonic::async_trait]
impl SyncService for IdleService {
    type SyncStream = BoxStream<'static, Result<v1::SyncResponse, Status>>;

    async fn sync(
        &self,
        request: Request<Streaming<v1::SyncRequest>>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        let silent = request.into_inner().filter_map(|_| ready(None));
        Ok(Response::new(silent.boxed()))
    }

    async fn list_gateways(
        &self,
        _: Request<v1::ListGatewaysRequest>,
    ) -> Result<Response<v1::ListGatewaysResponse>, Status> {
        Err(Status::unimplemented("the server only keeps streams open"))
    }
}
