//! A gRPC client in the process of the gateway. Its messages are JSON.

use axum::Router;
use bytes::{Buf as _, BufMut as _};
use http::uri::{PathAndQuery, Uri};
use serde_json::Value;
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::harness::A2aBench;

/// Converts the messages of one method.
#[derive(Debug, Clone, Copy)]
struct JsonCodec(&'static str);

impl Codec for JsonCodec {
    type Encode = Value;
    type Decode = Value;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for JsonCodec {
    type Item = Value;
    type Error = Status;

    fn encode(&mut self, item: Value, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let encoded = a2a_grpc::encode_request(self.0, &item);
        buffer.put_slice(&encoded.map_err(|e| Status::internal(e.to_string()))?);
        Ok(())
    }
}

impl Decoder for JsonCodec {
    type Item = Value;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Value>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let decoded = a2a_grpc::decode_response(self.0, &bytes);
        decoded.map(Some).map_err(|e| Status::internal(e.to_string()))
    }
}

/// A caller, or an unknown one without a name.
pub(super) struct GrpcClient {
    router: Router,
    caller: &'static str,
    version: Option<&'static str>,
}

impl GrpcClient {
    pub(super) fn new(bench: &A2aBench, caller: &'static str) -> Self {
        Self { router: bench.router.clone(), caller, version: Some("1.0") }
    }

    /// The client that sends another version, or none.
    pub(super) fn with_version(self, version: Option<&'static str>) -> Self {
        Self { version, ..self }
    }

    fn request(&self, params: Value) -> Request<Value> {
        let mut request = Request::new(params);
        let metadata = request.metadata_mut();
        if !self.caller.is_empty() {
            metadata.insert("x-agent-name", self.caller.parse().unwrap());
        }
        if let Some(version) = self.version {
            metadata.insert("a2a-version", version.parse().unwrap());
        }
        request
    }

    fn grpc(&self) -> Grpc<Router> {
        Grpc::with_origin(self.router.clone(), Uri::from_static("http://localhost:7080"))
    }

    pub(super) async fn unary(&self, method: &'static str, params: Value) -> Result<Value, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.unwrap();
        let answer = grpc.unary(self.request(params), path(method), JsonCodec(method)).await?;
        Ok(answer.into_inner())
    }

    pub(super) async fn open(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<Streaming<Value>, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.unwrap();
        let request = self.request(params);
        let stream = grpc.server_streaming(request, path(method), JsonCodec(method)).await?;
        Ok(stream.into_inner())
    }

    /// The events of a stream that ends without an error.
    pub(super) async fn events(&self, method: &'static str, params: Value) -> Vec<Value> {
        let mut stream = self.open(method, params).await.unwrap();
        let mut events = Vec::new();
        while let Some(event) = stream.message().await.unwrap() {
            events.push(event);
        }
        events
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/{}/{method}", a2a_grpc::SERVICE).parse().unwrap()
}
