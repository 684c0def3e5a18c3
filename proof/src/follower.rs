//! A follower that opens streams with random scopes at random points of its past, acknowledges or
//! not, reads slowly or pauses, changes its scope, and disconnects.

use std::{sync::Arc, time::Duration};

use history_check::Event;
use registry_core::{Catalog, Scope, chain::Position};
use registry_proto::v1::{
    Ack, ClientHello, FollowMode, FollowerCapability, SyncRequest, SyncResponse,
    sync_request::Message, sync_service_client::SyncServiceClient,
};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Endpoint};
use tonic_types::StatusExt as _;

use crate::{
    entity::roots, follower_state::FollowerState, history_writer::HistoryWriter, rng::Rng,
    server::Server, workload::ROOTS,
};

/// A stream without messages for this time is dead.
const SILENCE: Duration = Duration::from_millis(1_500);
/// The flow-control window of a slow follower, in bytes. A sender with more data must wait.
const NARROW: u32 = 1024;
/// Time limit to open a stream.
const OPENING: Duration = Duration::from_secs(2);

/// A follower.
pub(crate) struct Follower {
    pub(crate) who: String,
    /// Servers and relays.
    pub(crate) servers: Vec<Server>,
    pub(crate) history: Arc<HistoryWriter>,
    pub(crate) rng: Rng,
    /// Whether to stay on a stream and catch up.
    pub(crate) calm: watch::Receiver<bool>,
    /// The current revision.
    pub(crate) at: watch::Sender<u64>,
    pub(crate) past: Vec<(u64, Catalog)>,
}

type Answers = mpsc::Sender<SyncRequest>;

impl Follower {
    /// Follows until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let server = self.rng.below(self.servers.len());
            let reason = self.stream(server).await;
            self.history.note(&self.who, Event::Ended { reason });
            let wait = self.rng.between(10, 200);
            sleep(Duration::from_millis(wait)).await;
        }
    }

    /// Runs one stream and returns the reason of its end.
    async fn stream(&mut self, server: usize) -> String {
        let resumed = self.resumed();
        let scope = self.scope(resumed.as_ref().map(|(_, catalog)| catalog));
        let hello = self.hello(&scope, resumed.as_ref());
        self.history.note(
            &self.who,
            Event::Hello {
                server,
                scope: roots(&scope),
                position: hello.position.as_ref().map(|position| position.revision),
                content: !hello.content_digest.is_empty(),
                resumes: hello.position.as_ref().and(resumed.as_ref()).map(|(line, _)| *line),
            },
        );
        let held = hello.position.as_ref().and(resumed).map(|(_, catalog)| catalog);
        let window = self.rng.chance(50).then_some(NARROW);
        match timeout(OPENING, self.open(server, hello, window)).await {
            Ok(Ok((answers, stream))) => {
                self.follow(FollowerState::new(held), &answers, stream).await
            }
            Ok(Err(status)) => shown(&status),
            Err(_) => "the server does not respond".to_owned(),
        }
    }

    /// The state to resume from: mostly the current one, sometimes an earlier one or none.
    fn resumed(&mut self) -> Option<(u64, Catalog)> {
        let latest = self.past.last().cloned();
        match self.rng.below(100) {
            _ if *self.calm.borrow() => latest,
            0..70 => latest,
            70..90 if !self.past.is_empty() => Some(self.rng.pick(&self.past).clone()),
            _ => None,
        }
    }

    fn scope(&mut self, held: Option<&Catalog>) -> Scope {
        let kept = held.map(|held| (**held.scope()).clone());
        match kept {
            Some(kept) if self.rng.chance(70) => kept,
            _ => self.any_scope(),
        }
    }

    fn any_scope(&mut self) -> Scope {
        if self.rng.chance(40) {
            return Scope::Everything;
        }
        let count = self.rng.between(1, 3);
        let chosen: Vec<&str> = (0..count).map(|_| *self.rng.pick(&ROOTS)).collect();
        Scope::from_roots(&chosen).expect("roots")
    }

    fn hello(&mut self, scope: &Scope, resumed: Option<&(u64, Catalog)>) -> ClientHello {
        let held = resumed.map(|(_, catalog)| catalog);
        let wants_all = *scope == Scope::Everything;
        // A partial state cannot become complete, and content counts only for its own scope.
        let is_of_use = |held: &&Catalog| !wants_all || **held.scope() == Scope::Everything;
        let held = held.filter(is_of_use);
        let same = held.filter(|held| !wants_all && **held.scope() == *scope);
        let content = same.map(|held| held.content_digest().to_string());
        let is_observer = self.rng.chance(30);
        let mode = if is_observer { FollowMode::Observer } else { FollowMode::Gateway };
        ClientHello {
            gateway: self.who.clone(),
            gateway_version: "0".to_owned(),
            scope: (!wants_all).then(|| scope.into()),
            position: held.map(|held| (&Position::of_catalog(held)).into()),
            content_digest: content.unwrap_or_default(),
            mode: mode.into(),
            capabilities: vec![FollowerCapability::Policies.into()],
        }
    }

    async fn open(
        &self,
        server: usize,
        hello: ClientHello,
        window: Option<u32>,
    ) -> Result<(Answers, Streaming<SyncResponse>), Status> {
        let address = &self.servers[server].links.streams.address;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let lost = |e: tonic::transport::Error| Status::unavailable(e.to_string());
        let endpoint = endpoint.connect_timeout(OPENING).initial_stream_window_size(window);
        let channel = endpoint.connect().await.map_err(lost)?;
        let mut client = SyncServiceClient::new(channel).max_decoding_message_size(64 << 20);
        let (answers, requests) = mpsc::channel(16);
        // The channel is empty.
        let _ = answers.try_send(SyncRequest { message: Some(Message::Hello(hello)) });
        let stream = client.sync(ReceiverStream::new(requests)).await?.into_inner();
        Ok((answers, stream))
    }

    async fn follow(
        &mut self,
        mut state: FollowerState,
        answers: &Answers,
        mut stream: Streaming<SyncResponse>,
    ) -> String {
        let mut left = self.rng.between(1, 60);
        loop {
            let response = match timeout(SILENCE, stream.message()).await {
                Ok(Ok(Some(response))) => response,
                Ok(Ok(None)) => return "the server closed the stream".to_owned(),
                Ok(Err(status)) => return shown(&status),
                Err(_) => return "the server is silent".to_owned(),
            };
            match state.take(response) {
                Ok(None) => continue,
                Ok(Some(message)) => {
                    let line = self.history.note(&self.who, Event::Took { message });
                    self.keep(line, &state);
                }
                Err(reason) => {
                    self.history.note(&self.who, Event::Refused { reason });
                    return "a message was rejected".to_owned();
                }
            }
            self.acknowledge(answers);
            if *self.calm.borrow() {
                continue;
            }
            left -= 1;
            if left == 0 {
                return "the follower disconnected".to_owned();
            }
            self.dawdle(answers).await;
        }
    }

    fn keep(&mut self, line: u64, state: &FollowerState) {
        if let Some(catalog) = &state.catalog {
            self.past.push((line, catalog.clone()));
            self.at.send_replace(catalog.revision().0);
        }
    }

    fn acknowledge(&mut self, answers: &Answers) {
        let Some((_, held)) = self.past.last().filter(|_| self.rng.chance(80)) else { return };
        let revision = held.revision().0;
        let ack =
            Ack { applied_revision: revision, persisted_revision: revision, ..Default::default() };
        let _ = answers.try_send(SyncRequest { message: Some(Message::Ack(ack)) });
    }

    /// Sometimes pauses reading, sometimes changes its scope.
    async fn dawdle(&mut self, answers: &Answers) {
        match self.rng.below(200) {
            0..4 => {
                let scope = self.any_scope();
                let request = SyncRequest { message: Some(Message::Scope((&scope).into())) };
                self.history.note(&self.who, Event::Rescope { scope: roots(&scope) });
                let _ = answers.try_send(request);
            }
            4..8 => {
                let wait = self.rng.between(100, 1_400);
                sleep(Duration::from_millis(wait)).await;
            }
            _ => {}
        }
    }
}

fn shown(status: &Status) -> String {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    format!("{reason} {:?}: {}", status.code(), status.message())
}
