//! The frames of `Sync`. Each message is encoded once, and all streams share its bytes.
//!
//! Tonic encodes or copies a message for each stream. Compression is not supported, because it would encode
//! each message once per stream.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::HttpBody;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use http_body::Frame;
use prost::Message as _;
use registry_core::{Attestation, Scope, limits};
use registry_proto::{
    convert,
    v1::{self, sync_response::Message as Wire},
};
use tokio::time::{Sleep, sleep_until};
use tonic::Status;

use crate::{
    feed::{Delta, Error, Heartbeat, Message, Outgoing, ScopeDelta, SnapshotChunk},
    grpc::deadline::Deadline,
    metrics,
    peer::CountedFollower,
};

/// The maximum size of a message: the largest accepted batch and its commit. Documents can be larger as JSON
/// than in the request.
const MESSAGE_BYTES: usize = limits::BATCH_BYTES + (8 << 20);

/// The size of the gRPC message prefix: the compression flag and the length.
const PREFIX: usize = 5;

/// The frame of a message. It is encoded on first use.
pub(super) fn encoded(message: &Message) -> Result<Bytes, Status> {
    let frame = match message {
        Message::ServerHello(key) => key.encoded(|key| {
            let hello = v1::ServerHello { verifier_key: key.to_string() };
            encode("server_hello", Wire::ServerHello(hello), None)
        }),
        Message::Snapshot(chunk) => chunk.encoded(|chunk| {
            let signed =
                if let SnapshotChunk::End(_, signed) = chunk { signed.as_ref() } else { None };
            encode("snapshot", encode_chunk(chunk), signed)
        }),
        Message::Delta(delta) => delta.encoded(|Delta { commit, attestation }| {
            encode("delta", Wire::Delta(commit.into()), attestation.as_ref())
        }),
        Message::ScopeDelta(step) => {
            step.encoded(|step| encode("scope_delta", encode_scope_delta(step), step.attestation()))
        }
        Message::Heartbeat(heartbeat) => {
            heartbeat.encoded(|Heartbeat { position, content, attestation, age_ms }| {
                let staleness = (*age_ms > 0).then(|| Duration::from_millis(*age_ms));
                let heartbeat = v1::Heartbeat {
                    content_digest: content.map(|digest| digest.to_string()).unwrap_or_default(),
                    staleness: staleness.map(convert::duration),
                    ..position.into()
                };
                encode("heartbeat", Wire::Heartbeat(heartbeat), attestation.as_ref())
            })
        }
    };
    match frame.len() - PREFIX {
        0..=MESSAGE_BYTES => Ok(frame),
        bytes => Err(Status::out_of_range(format!(
            "the next message has {bytes} bytes, the limit is {MESSAGE_BYTES}"
        ))),
    }
}

/// The body of a response: messages until they end, fail or reach the deadline, then the status.
pub(super) struct SyncBody {
    messages: Outgoing,
    deadline: Option<Pin<Box<Sleep>>>,
    is_ended: bool,
    _counted: Option<CountedFollower>,
}

impl SyncBody {
    /// Creates a body. The connection counts its follower until the body is dropped.
    pub(super) fn new(
        messages: Outgoing,
        deadline: Option<Deadline>,
        counted: Option<CountedFollower>,
    ) -> Self {
        let deadline = deadline.map(|Deadline(at)| Box::pin(sleep_until(at)));
        Self { messages, deadline, is_ended: false, _counted: counted }
    }

    /// The next frame, or the status of the end.
    fn poll_encoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(Error::Deadline.into()));
        }
        Poll::Ready(match ready!(self.messages.poll_next_unpin(cx)) {
            Some(message) => encoded(&message?),
            None => Err(Status::ok("")),
        })
    }
}

impl HttpBody for SyncBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(self.poll_encoded(cx)) {
            Ok(frame) => Ok(Frame::data(frame)),
            Err(end) => {
                self.is_ended = true;
                let mut trailers = HeaderMap::new();
                end.add_header(&mut trailers).map(|()| Frame::trailers(trailers))
            }
        }))
    }
}

/// A response with the body of a stream.
pub(super) fn response(body: SyncBody) -> Response<SyncBody> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    response
}

fn encode(kind: &'static str, message: Wire, attestation: Option<&Attestation>) -> Bytes {
    metrics::encoded(kind);
    let attestation = attestation.map(v1::Attestation::from);
    let message = v1::SyncResponse { message: Some(message), attestation };
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut frame);
    frame.freeze()
}

fn encode_chunk(chunk: &SnapshotChunk) -> Wire {
    match chunk {
        SnapshotChunk::Begin { position, scope, entities, settings, compacted } => {
            Wire::SnapshotBegin(v1::SnapshotBegin {
                position: Some(position.into()),
                scope: (**scope != Scope::Everything).then(|| (&**scope).into()),
                entity_count: *entities as u64,
                setting_count: *settings as u64,
                oldest_revision: compacted.map_or(0, |oldest| oldest.0),
            })
        }
        SnapshotChunk::Entities(records) => Wire::SnapshotChunk(v1::SnapshotChunk {
            entities: records.iter().map(|record| (&**record).into()).collect(),
            settings: Vec::new(),
        }),
        SnapshotChunk::Settings(settings) => Wire::SnapshotChunk(v1::SnapshotChunk {
            entities: Vec::new(),
            settings: settings
                .iter()
                .map(|(target, set)| convert::setting_state(target, set))
                .collect(),
        }),
        SnapshotChunk::End(digest, _) => {
            Wire::SnapshotEnd(v1::SnapshotEnd { digest: digest.to_string() })
        }
    }
}

fn encode_scope_delta(step: &ScopeDelta) -> Wire {
    Wire::ScopeDelta(v1::ScopeDelta {
        position: Some((&step.position()).into()),
        entities: step.put.iter().map(|record| (&**record).into()).collect(),
        removed: step.removed.iter().map(Into::into).collect(),
        content_digest: step.content().to_string(),
        scope: Some(step.scope().into()),
        settings: step
            .settings
            .iter()
            .filter_map(|(on, set)| Some(convert::setting_state(on, set.as_ref()?)))
            .collect(),
        removed_settings: step
            .settings
            .iter()
            .filter(|(_, set)| set.is_none())
            .map(|(on, _)| on.to_string())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use registry_core::{
        Action, Catalog, Change, Commit, Digest, Document, Kind, RegistryId, Revision,
        SealedCommit, Timestamp,
    };

    use registry_core::chain::Position;

    use super::*;
    use crate::feed::SharedMessage;

    fn commit() -> SealedCommit {
        let schema = serde_json::json!({ "name": "A", "version": "1.0.0", "schema": {} });
        let document = Arc::new(Document::parse(Kind::Schema, &schema).unwrap());
        let action = Action::register(document.digest());
        let commit = Commit {
            revision: Revision(1),
            author: "ann".to_owned(),
            committed_at: Timestamp::from_millis(1_000),
            changes: vec![Change { key: document.key().clone(), action }],
            ..Commit::default()
        };
        let genesis = Catalog::empty(RegistryId::new("test")).chain();
        SealedCommit::seal(&genesis, commit, vec![document]).unwrap()
    }

    fn signed() -> Attestation {
        Attestation { time: Timestamp::from_millis(1_000), signature: [7; 64] }
    }

    fn messages() -> Vec<(Message, Wire)> {
        let sealed = commit();
        let mut catalog = Catalog::empty(RegistryId::new("test"));
        catalog.apply(&sealed).unwrap();
        let position = Position::of_catalog(&catalog);
        let records: Vec<_> = catalog.after(None).map(|(_, record)| record.clone()).collect();
        let begin = v1::SnapshotBegin {
            position: Some((&position).into()),
            entity_count: 1,
            ..v1::SnapshotBegin::default()
        };
        let chunk = v1::SnapshotChunk {
            entities: records.iter().map(|record| (&**record).into()).collect(),
            ..v1::SnapshotChunk::default()
        };
        let (scope, settings) = (Arc::new(Scope::Everything), 0);
        let signed = Some(signed());
        let snapshot = |chunk| Message::Snapshot(SharedMessage::new(chunk));
        vec![
            (
                snapshot(SnapshotChunk::Begin {
                    position: position.clone(),
                    scope,
                    entities: 1,
                    settings,
                    compacted: None,
                }),
                Wire::SnapshotBegin(begin),
            ),
            (snapshot(SnapshotChunk::Entities(records)), Wire::SnapshotChunk(chunk)),
            (
                snapshot(SnapshotChunk::End(Digest::compute(b"all"), signed)),
                Wire::SnapshotEnd(v1::SnapshotEnd { digest: Digest::compute(b"all").to_string() }),
            ),
            (
                Message::Delta(SharedMessage::new(Delta { commit: commit(), attestation: signed })),
                Wire::Delta((&sealed).into()),
            ),
            (
                Message::Heartbeat(SharedMessage::new(Heartbeat {
                    position: position.clone(),
                    content: None,
                    attestation: signed,
                    age_ms: 0,
                })),
                Wire::Heartbeat((&position).into()),
            ),
        ]
    }

    #[test]
    fn a_frame_is_what_tonic_would_send() {
        for (message, wire) in messages() {
            let frame = encoded(&message).unwrap();
            let is_state = !matches!(wire, Wire::SnapshotBegin(_) | Wire::SnapshotChunk(_));
            let attestation = is_state.then(|| (&signed()).into());
            let expected = v1::SyncResponse { message: Some(wire), attestation }.encode_to_vec();
            let length = u32::try_from(expected.len()).unwrap().to_be_bytes();
            assert_eq!(frame[..], [&[0], &length[..], &expected].concat(), "{message:?}");
        }
    }

    #[test]
    fn all_who_are_told_a_message_send_the_same_bytes() {
        for (message, _) in messages() {
            let (first, second) = (encoded(&message).unwrap(), encoded(&message.clone()).unwrap());
            assert_eq!(first.as_ptr(), second.as_ptr(), "{message:?}");
        }
    }
}
