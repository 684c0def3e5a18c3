//! One open Sync stream: requests and responses, without reconnects.

use registry_core::limits;
use registry_proto::v1::{
    ClientHello, FollowerCapability, SyncRequest, SyncResponse, sync_request::Message,
    sync_service_client::SyncServiceClient,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Status, Streaming,
    body::Body as RequestBody,
    client::GrpcService,
    codegen::{Body, Bytes, StdError},
    metadata::{Ascii, MetadataValue},
};

/// Largest message from the server, in bytes: the largest batch that the rules accept, with room for
/// its commit.
const MESSAGE_BYTES: usize = limits::BATCH_BYTES + (16 << 20);
/// Requests that wait for the network.
const REQUESTS: usize = 16;

/// An open Sync stream. Dropping it closes the stream.
#[derive(Debug)]
pub struct Stream {
    requests: mpsc::Sender<SyncRequest>,
    responses: Streaming<SyncResponse>,
}

impl Stream {
    /// Opens a stream over a channel, and sends the first message. A channel that adds its own
    /// credentials needs no `authorization`.
    pub async fn open<T>(
        channel: T,
        authorization: Option<MetadataValue<Ascii>>,
        mut hello: ClientHello,
    ) -> Result<Self, Status>
    where
        T: GrpcService<RequestBody>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + Send,
    {
        let mut client = SyncServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES);
        let (requests, outgoing) = mpsc::channel(REQUESTS);
        hello.capabilities = vec![FollowerCapability::Policies.into()];
        // The channel is new, so it has room.
        let _ = requests.try_send(SyncRequest { message: Some(Message::Hello(hello)) });
        let mut request = Request::new(ReceiverStream::new(outgoing));
        if let Some(authorization) = authorization {
            request.metadata_mut().insert("authorization", authorization);
        }
        let responses = client.sync(request).await?.into_inner();
        Ok(Self { requests, responses })
    }

    /// The next message. `None`: the server has closed the stream.
    pub async fn next(&mut self) -> Result<Option<SyncResponse>, Status> {
        self.responses.message().await
    }

    /// Sends a message, once there is room for it. The next read reports a broken stream.
    pub async fn send(&self, request: SyncRequest) {
        let _ = self.requests.send(request).await;
    }

    /// Sends a message if there is room for it.
    pub fn try_send(&self, request: SyncRequest) -> Result<(), NotSent> {
        self.requests.try_send(request).map_err(|_| NotSent)
    }
}

/// A message that was not sent: too many wait for the network, or the stream is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSent;
