//! The client that registers entities in the name of the gateway.

use std::time::Duration;

use ledger::LedgerError;
use registry_core::{Document, Key};
use registry_proto::v1::{
    self, entity_change::Change, registry_service_client::RegistryServiceClient,
};
use tokio::time::timeout;
use tonic::Code;

use crate::{Follower, connection::Connection, session::said_by};

/// Maximum time that the registry takes to commit.
const COMMIT_LIMIT: Duration = Duration::from_secs(10);

/// Registers entities. It connects to one of the servers, and to the next one after a failure.
#[derive(Debug)]
pub struct RegistrationClient {
    connection: Connection,
}

/// The changes of one commit.
#[derive(Debug, Clone)]
pub struct RegistrationBatch<'a> {
    /// The new entities. The batch is rejected if one is registered already.
    pub documents: &'a [Document],
    /// The entities to retire.
    pub retired: &'a [Key],
    /// The message of the commit.
    pub message: String,
}

/// Why a batch is not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationError {
    /// The registry rejects the content of the batch.
    Rejected(String),
    /// The credential may not register these entities.
    Forbidden(String),
    /// Another commit was first. Nothing was committed.
    Conflict(String),
    /// The registry did not answer. The outcome may be unknown.
    Unavailable(String),
}

impl RegistrationClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower) }
    }

    /// Commits a batch.
    pub async fn apply(&self, batch: RegistrationBatch<'_>) -> Result<(), RegistrationError> {
        let late = || {
            let limit = COMMIT_LIMIT.as_secs();
            Err(RegistrationError::Unavailable(format!("no answer of the registry in {limit} s")))
        };
        timeout(COMMIT_LIMIT, self.commit(batch)).await.unwrap_or_else(|_| late())
    }

    async fn commit(&self, batch: RegistrationBatch<'_>) -> Result<(), RegistrationError> {
        let register = batch.documents.iter().map(|document| v1::EntityChange {
            change: Some(Change::RegisterDocument(document.into())),
            if_digest: Some(String::new()),
        });
        let retire = batch.retired.iter().map(|key| {
            let lifecycle = v1::SetLifecycle {
                key: Some(key.into()),
                state: v1::LifecycleState::Retired.into(),
                message: Some("the data agent registered without this function".to_owned()),
                ..v1::SetLifecycle::default()
            };
            v1::EntityChange { change: Some(Change::SetLifecycle(lifecycle)), if_digest: None }
        });
        let wanted = v1::ApplyChangesRequest {
            changes: register.chain(retire).collect(),
            message: batch.message,
            ..v1::ApplyChangesRequest::default()
        };
        let (channel, request) = self.connection.request(wanted).await.map_err(of_connection)?;
        match RegistryServiceClient::new(channel).apply_changes(request).await {
            Ok(_) => Ok(()),
            Err(status) => match status.code() {
                Code::PermissionDenied => Err(RegistrationError::Forbidden(said_by(&status))),
                Code::AlreadyExists | Code::OutOfRange => {
                    Err(RegistrationError::Rejected(said_by(&status)))
                }
                Code::Aborted => Err(RegistrationError::Conflict(said_by(&status))),
                _ => Err(of_connection(self.connection.fail(&status).await)),
            },
        }
    }
}

fn of_connection(failure: LedgerError) -> RegistrationError {
    match failure {
        LedgerError::Rejected(why) => RegistrationError::Rejected(why),
        LedgerError::Unavailable(why) => RegistrationError::Unavailable(why),
    }
}
