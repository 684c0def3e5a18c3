//! A follower like a gateway: verifies every message and holds a catalog.

use std::{sync::Arc, time::Duration};

use registry_core::{
    Catalog, Digest, Record, RegistryId, Revision, Scope, Selector, Settings, chain::Position,
    setting::SelectorSettings,
};
use registry_proto::{
    convert::{self, VerifiedScopeDelta},
    v1::{self, sync_request, sync_response::Message, sync_service_client::SyncServiceClient},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

use crate::harness::TestServer;

/// An open stream and its received state.
pub(crate) struct Follower {
    pub(crate) catalog: Option<Catalog>,
    /// Received messages, for example `snapshot`, `delta 3` or `progress 3`.
    pub(crate) heard: Vec<String>,
    says: mpsc::Sender<v1::SyncRequest>,
    hears: Streaming<v1::SyncResponse>,
    snapshot: Option<Parts>,
}

/// Content of a partially received snapshot.
struct Parts {
    position: Position,
    scope: Scope,
    records: Vec<Record>,
    settings: Vec<(Selector, SelectorSettings)>,
}

pub(crate) fn hello(position: Option<v1::LogPosition>) -> v1::SyncRequest {
    let hello = v1::ClientHello {
        gateway: "edge-1".to_owned(),
        gateway_version: "1.0.0".to_owned(),
        position,
        ..Default::default()
    };
    v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) }
}

impl Follower {
    /// Follows without a position.
    pub(crate) async fn new(server: &TestServer) -> Self {
        Self::resume(server, None).await.unwrap()
    }

    /// Resumes from a catalog.
    pub(crate) async fn resume(
        server: &TestServer,
        catalog: Option<Catalog>,
    ) -> Result<Self, Status> {
        let position = catalog.as_ref().map(|catalog| (&Position::of_catalog(catalog)).into());
        Self::open(server, position, catalog).await
    }

    pub(crate) async fn open(
        server: &TestServer,
        position: Option<v1::LogPosition>,
        catalog: Option<Catalog>,
    ) -> Result<Self, Status> {
        let hello = v1::ClientHello {
            gateway: "edge-1".to_owned(),
            gateway_version: "1.0.0".to_owned(),
            position,
            ..Default::default()
        };
        Self::say_hello(server.sync().await, hello, catalog).await
    }

    /// Follows without a position, on a connection that other streams may share.
    pub(crate) async fn on(connection: &Channel) -> Self {
        let hello = v1::ClientHello { gateway: "edge-1".to_owned(), ..Default::default() };
        let client = SyncServiceClient::new(connection.clone());
        Self::say_hello(client, hello, None).await.unwrap()
    }

    async fn say_hello(
        client: SyncServiceClient<Channel>,
        hello: v1::ClientHello,
        catalog: Option<Catalog>,
    ) -> Result<Self, Status> {
        let (says, said) = mpsc::channel(16);
        let message = Some(sync_request::Message::Hello(hello));
        says.send(v1::SyncRequest { message }).await.unwrap();
        let mut client = client.max_decoding_message_size(16 << 20);
        let hears = client.sync(ReceiverStream::new(said)).await?.into_inner();
        Ok(Self { catalog, heard: Vec::new(), says, hears, snapshot: None })
    }

    /// Follows a scope, without or with an earlier state.
    pub(crate) async fn of_scope(
        server: &TestServer,
        scope: &Scope,
        held: Option<Catalog>,
    ) -> Result<Self, Status> {
        let hello = v1::ClientHello {
            gateway: "edge-1".to_owned(),
            scope: Some(scope.into()),
            position: held.as_ref().map(|held| (&Position::of_catalog(held)).into()),
            content_digest: held.as_ref().map_or_else(String::new, content_of),
            ..Default::default()
        };
        Self::say_hello(server.sync().await, hello, held).await
    }

    /// Changes the scope of the stream.
    pub(crate) async fn change_scope(&self, scope: &Scope) {
        self.say(sync_request::Message::Scope(scope.into())).await;
    }

    /// Receives and verifies the next message.
    pub(crate) async fn hear(&mut self) -> Result<Message, Status> {
        let next = timeout(Duration::from_secs(15), self.hears.message()).await.unwrap();
        let message = next?.expect("the stream ends with a status").message.unwrap();
        self.take(message.clone());
        Ok(message)
    }

    /// Receives messages until the catalog reaches a revision.
    pub(crate) async fn reach(&mut self, revision: u64) {
        while self.revision() < revision {
            self.hear().await.unwrap();
        }
        assert_eq!(self.revision(), revision);
    }

    pub(crate) fn revision(&self) -> u64 {
        self.catalog.as_ref().map_or(0, |catalog| catalog.revision().0)
    }

    pub(crate) async fn ack(&self, applied_revision: u64, persisted_revision: u64) {
        let ack = v1::Ack { applied_revision, persisted_revision, ..Default::default() };
        self.say(sync_request::Message::Ack(ack)).await;
    }

    pub(crate) async fn say(&self, message: sync_request::Message) {
        self.says.send(v1::SyncRequest { message: Some(message) }).await.unwrap();
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::SnapshotBegin(v1::SnapshotBegin {
                position, scope, oldest_revision, ..
            }) => {
                self.heard.push(begun(oldest_revision));
                let position = position.unwrap().try_into().unwrap();
                let scope = scope.map_or(Scope::Everything, |s| convert::scope(s).unwrap());
                let (records, settings) = (Vec::new(), Vec::new());
                self.snapshot = Some(Parts { position, scope, records, settings });
            }
            Message::ServerHello(_) => self.heard.push("welcome".to_owned()),
            Message::SnapshotChunk(v1::SnapshotChunk { entities, settings }) => {
                assert!((1..=512).contains(&(entities.len() + settings.len())));
                let parts = self.snapshot.as_mut().unwrap();
                let records = entities.into_iter().map(|entity| Record::try_from(entity).unwrap());
                parts.records.extend(records);
                parts.settings.extend(convert::settings(settings).unwrap());
            }
            Message::SnapshotEnd(v1::SnapshotEnd { digest }) => {
                let Parts { position, scope, records, settings } = self.snapshot.take().unwrap();
                let Position { registry, revision, chain } = position;
                let catalog = Catalog::restore(registry, revision, chain, records)
                    .with_settings(Settings::restore(settings))
                    .with_scope(Arc::new(scope));
                assert_eq!(catalog.digest().to_string(), digest);
                self.catalog = Some(catalog);
            }
            Message::Delta(delta) => {
                self.heard.push(format!("delta {}", delta.revision));
                let catalog = self.catalog.as_mut().expect("a snapshot comes first");
                let commit = convert::sealed_commit(&catalog.chain(), delta).unwrap();
                catalog.apply(&commit).unwrap();
            }
            Message::ScopeDelta(step) => {
                let VerifiedScopeDelta { position, scope, step, content } =
                    convert::verify_scope_delta(step).unwrap();
                let (put, removed) = (step.put.len(), step.removed.len());
                self.heard.push(format!("step {} +{put} -{removed}", position.revision));
                let place = (position.revision, position.chain);
                let held = self.catalog.take().expect("a snapshot comes first");
                assert!(held.revision() <= position.revision);
                let catalog = held.with_delta(place, Arc::new(scope), step).unwrap();
                assert_eq!(catalog.content_digest(), content);
                self.catalog = Some(catalog);
            }
            Message::Heartbeat(v1::Heartbeat { revision, chain, content_digest, .. }) => {
                self.heard.push(format!("progress {revision}"));
                let held = self.catalog.take().unwrap();
                let catalog = if **held.scope() == Scope::Everything {
                    held
                } else {
                    assert!(held.revision() <= Revision(revision));
                    held.at(Revision(revision), convert::chain_hash(&chain).unwrap())
                };
                let catalog = self.catalog.insert(catalog);
                assert_eq!(catalog.revision(), Revision(revision));
                assert_eq!(catalog.chain().to_string(), chain);
                assert_eq!(content_of_part(catalog), content_digest);
            }
        }
    }
}

/// Catalog digest of a server, as received by a new follower.
pub(crate) async fn digest(server: &TestServer) -> Digest {
    let mut follower = Follower::new(server).await;
    // A shared snapshot may be old; the heartbeat follows the missing commits.
    while !matches!(follower.hear().await.unwrap(), Message::Heartbeat(_)) {}
    follower.catalog.unwrap().digest()
}

/// An empty catalog.
pub(crate) fn empty(registry: &str) -> Catalog {
    Catalog::empty(RegistryId::new(registry))
}

fn content_of(catalog: &Catalog) -> String {
    catalog.content_digest().to_string()
}

/// Label of the start of a snapshot.
fn begun(oldest_revision: u64) -> String {
    match oldest_revision {
        0 => "snapshot".to_owned(),
        oldest => format!("snapshot: compacted before {oldest}"),
    }
}

/// Content digest in a heartbeat; empty for the whole catalog.
fn content_of_part(catalog: &Catalog) -> String {
    if **catalog.scope() == Scope::Everything { String::new() } else { content_of(catalog) }
}
