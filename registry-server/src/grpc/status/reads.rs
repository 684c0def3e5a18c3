//! The statuses of failed reads.

use std::time::Duration;

use tonic::{Code, Status};

use super::{super::refusal::Refusal, internal, not_found, store_refusal};
use crate::app::{NoCommit, ReadError, audit, graph, resolve, sbom::Incomplete};

impl From<ReadError> for Status {
    fn from(error: ReadError) -> Self {
        let message = error.to_string();
        let say = |code, reason| Refusal::new(code, reason, message);
        let refusal = match error {
            ReadError::Page(error) => return error.into(),
            ReadError::NoCommit(error) => return error.into(),
            ReadError::Ahead { head, .. } => {
                say(Code::OutOfRange, "REVISION_AHEAD").with("currentRevision", &head)
            }
            ReadError::NotReached { head, .. } => say(Code::Unavailable, "REVISION_NOT_REACHED")
                .with("currentRevision", &head)
                .retry_after(Duration::from_secs(1)),
            ReadError::Future { .. } => say(Code::OutOfRange, "TIME_AHEAD"),
            ReadError::NotRegistered { revision, .. } => {
                say(Code::NotFound, "NOT_FOUND").with("revision", &revision)
            }
            ReadError::IndexNotReady => {
                say(Code::Unavailable, "INDEX_NOT_READY").retry_after(Duration::from_secs(1))
            }
            ReadError::Store(error) => store_refusal(&error),
            ReadError::Internal(_) => return internal(&error),
        };
        refusal.into()
    }
}

impl From<Incomplete> for Status {
    fn from(error: Incomplete) -> Self {
        Refusal::new(Code::ResourceExhausted, "SLOW_READER", error.to_string()).into()
    }
}

impl From<audit::Error> for Status {
    fn from(error: audit::Error) -> Self {
        let message = error.to_string();
        match error {
            audit::Error::NoCommit(error) => error.into(),
            audit::Error::NoCheckpoint { absent: NoCommit { head, .. } } => {
                Refusal::new(Code::NotFound, "NOT_FOUND", message)
                    .with("currentRevision", &head)
                    .into()
            }
            audit::Error::Unproven { .. } => {
                tracing::error!(%error, "nothing is signed");
                Refusal::new(Code::DataLoss, "DATABASE_CORRUPT", error.to_string()).into()
            }
            audit::Error::Relay(upstream) => {
                let refusal = Refusal::new(Code::FailedPrecondition, "READ_ONLY_RELAY", message);
                refusal.with("upstream", &upstream).into()
            }
            audit::Error::Store(error) => store_refusal(&error).into(),
            audit::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<graph::Error> for Status {
    fn from(error: graph::Error) -> Self {
        match error {
            graph::Error::NotRegistered(key) => not_found(&key),
            graph::Error::OtherName { .. } => {
                Refusal::new(Code::InvalidArgument, "INVALID_REQUEST", error.to_string()).into()
            }
            graph::Error::Read(error) => error.into(),
        }
    }
}

impl From<resolve::Error> for Status {
    fn from(error: resolve::Error) -> Self {
        match error {
            resolve::Error::Read(error) => error.into(),
            resolve::Error::Unresolved { failed, .. } => {
                let refusal = Refusal::new(Code::NotFound, "UNRESOLVED", error.to_string());
                refusal.with("unresolved", &failed).into()
            }
        }
    }
}

impl From<NoCommit> for Status {
    fn from(error: NoCommit) -> Self {
        let refusal = Refusal::new(Code::NotFound, "NOT_FOUND", error.to_string());
        refusal.with("currentRevision", &error.head).into()
    }
}
