//! Calls of the registry, each recorded before it is sent and after it is answered.

use std::{sync::Arc, time::Duration};

use history_check::{
    Event,
    event::{Answer, Request},
};
use registry_core::{Key, Record, SettingChange};
use registry_proto::v1::{self, registry_service_client::RegistryServiceClient};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use crate::{
    entity::entity,
    history_writer::HistoryWriter,
    server::Server,
    workload::{AUTHOR, Batch},
};

/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Reasons with an unknown outcome of the write.
const OPEN: [&str; 4] = ["OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "DATABASE_CORRUPT"];

type Client = RegistryServiceClient<Channel>;

/// A client of some servers.
#[derive(Debug)]
pub(crate) struct Caller {
    who: String,
    servers: Vec<Server>,
    clients: Vec<Option<Client>>,
    history: Arc<HistoryWriter>,
}

/// A batch with its request id and base revision.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    pub(crate) batch: Batch,
    pub(crate) id: Option<String>,
    pub(crate) base: Option<u64>,
}

impl Caller {
    pub(crate) fn new(who: String, servers: &[Server], history: Arc<HistoryWriter>) -> Self {
        let clients = vec![None; servers.len()];
        Self { who, servers: servers.to_vec(), clients, history }
    }

    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn name(&self, server: usize) -> &str {
        &self.servers[server].name
    }

    pub(crate) async fn apply(&mut self, server: usize, wanted: &Submission) -> Answer {
        let Submission { batch, id, base } = wanted;
        let settings = batch.settings.iter();
        let as_written = |change: &SettingChange| {
            serde_json::to_value(change).expect("a setting is plain texts")
        };
        let request = Request::Apply {
            id: id.clone(),
            base: *base,
            author: AUTHOR.to_owned(),
            wanted: batch.wanted(),
            settings: settings.clone().map(as_written).collect(),
        };
        let message = v1::ApplyChangesRequest {
            changes: batch.proposed.iter().map(Into::into).collect(),
            author: AUTHOR.to_owned(),
            request_id: id.clone().unwrap_or_default(),
            base_revision: *base,
            settings: settings.map(Into::into).collect(),
            ..Default::default()
        };
        self.call(server, request, async |mut client| {
            let v1::ApplyChangesResponse { revision, committed, .. } =
                client.apply_changes(message).await?.into_inner();
            Ok(Answer::Applied { revision, committed })
        })
        .await
    }

    pub(crate) async fn get(&mut self, server: usize, key: &Key) -> Answer {
        let request = Request::Get { key: key.to_string() };
        let message = v1::GetEntityRequest {
            key: Some(key.into()),
            include_document: true,
            ..Default::default()
        };
        self.call(server, request, async |mut client| {
            let v1::GetEntityResponse { record, revision } =
                client.get_entity(message).await?.into_inner();
            Ok(Answer::Found {
                revision,
                entity: Box::new(entity(&read(record.unwrap_or_default())?)),
            })
        })
        .await
    }

    pub(crate) async fn list(&mut self, server: usize) -> Answer {
        let mut message = v1::ListEntitiesRequest {
            page_size: 1_000,
            include_document: true,
            ..Default::default()
        };
        self.call(server, Request::List {}, async |mut client| {
            let (mut all, mut of) = (Vec::new(), None);
            loop {
                let v1::ListEntitiesResponse { records, revision, next_page_token } =
                    client.list_entities(message.clone()).await?.into_inner();
                // Pages of different revisions are not one list.
                if *of.get_or_insert(revision) != revision {
                    return Err(Status::unknown("the pages have different revisions"));
                }
                all.extend(records);
                if next_page_token.is_empty() {
                    let records = all.into_iter().map(|record| Ok(entity(&read(record)?)));
                    let entities = records.collect::<Result<_, Status>>()?;
                    return Ok(Answer::Listed { revision, entities });
                }
                message.page_token = next_page_token;
            }
        })
        .await
    }

    /// The revision of a server, not recorded in the history.
    pub(crate) async fn revision(&mut self, server: usize) -> Option<u64> {
        let request = v1::ListEntitiesRequest { page_size: 1, ..Default::default() };
        let listed = self.client(server).list_entities(request).await;
        if listed.is_err() {
            self.clients[server] = None;
        }
        Some(listed.ok()?.into_inner().revision)
    }

    async fn call(
        &mut self,
        server: usize,
        request: Request,
        send: impl AsyncFnOnce(Client) -> Result<Answer, Status>,
    ) -> Answer {
        let client = self.client(server);
        let op = self.history.op();
        self.history.note(&self.who, Event::Call { op, server, request });
        let answer = send(client).await.unwrap_or_else(|status| refusal(&status));
        if let Answer::Unknown { .. } = answer {
            // The connection may be half open.
            self.clients[server] = None;
        }
        self.history.note(&self.who, Event::Answer { op, answer: answer.clone() });
        answer
    }

    fn client(&mut self, server: usize) -> Client {
        let address = &self.servers[server].links.calls.address;
        let connect = || {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let endpoint = endpoint.expect("an address").timeout(TIMEOUT).connect_timeout(TIMEOUT);
            Client::new(endpoint.connect_lazy()).max_decoding_message_size(64 << 20)
        };
        self.clients[server].get_or_insert_with(connect).clone()
    }
}

fn read(record: v1::EntityRecord) -> Result<Record, Status> {
    Record::try_from(record).map_err(|e| Status::unknown(format!("invalid record: {e}")))
}

fn refusal(status: &Status) -> Answer {
    let info = status.get_details_error_info();
    let reason = info.map(|info| info.reason).unwrap_or_default();
    if status.code() == Code::NotFound && reason == "NOT_FOUND" {
        Answer::Absent {}
    } else if reason.is_empty() || OPEN.contains(&reason.as_str()) {
        let code = status.code();
        Answer::Unknown { reason: format!("{reason} {code:?}: {}", status.message()) }
    } else {
        Answer::Refused { reason }
    }
}
