//! What readers are told.
//!
//! Deliberately absent: writes, streams and credentials; `status.rs` has those.

use std::time::Duration;

use tonic::{Code, Status};

use super::{super::refusal::Refusal, internal, not_found, store_refusal};
use crate::app::{
    at, audit, blame, graph,
    history::{self, NoCommit},
    page, resolve, sbom, search, who_has,
};

impl From<page::Error> for Status {
    fn from(error: page::Error) -> Self {
        match error {
            page::Error::Page(error) => error.into(),
            page::Error::Past(error) => error.into(),
            page::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<search::Error> for Status {
    fn from(error: search::Error) -> Self {
        match error {
            search::Error::Page(error) => error.into(),
            search::Error::Past(error) => error.into(),
            search::Error::NotReady => {
                Refusal::new(Code::Unavailable, "INDEX_NOT_READY", error.to_string())
                    .retry_after(Duration::from_secs(1))
                    .into()
            }
            search::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<audit::Error> for Status {
    fn from(error: audit::Error) -> Self {
        let message = error.to_string();
        match error {
            audit::Error::NoCommit(error) => error.into(),
            audit::Error::Unproven { .. } => {
                tracing::error!(%error, "nothing is signed");
                Refusal::new(Code::DataLoss, "DATABASE_CORRUPT", error.to_string()).into()
            }
            audit::Error::Relay(upstream) => {
                let refusal = Refusal::new(Code::FailedPrecondition, "RELAY", message);
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
            graph::Error::Past(error) => error.into(),
            graph::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<resolve::Error> for Status {
    fn from(error: resolve::Error) -> Self {
        match error {
            resolve::Error::Past(error) => error.into(),
            resolve::Error::Internal(_) => internal(&error),
            resolve::Error::Unresolved { failed, .. } => {
                let refusal = Refusal::new(Code::NotFound, "UNRESOLVED", error.to_string());
                refusal.with("unresolved", &failed).into()
            }
        }
    }
}

impl From<at::Error> for Status {
    fn from(error: at::Error) -> Self {
        match error {
            at::Error::Ahead { head, .. } => {
                let refusal = Refusal::new(Code::OutOfRange, "REVISION_AHEAD", error.to_string());
                refusal.with("current_revision", &head).into()
            }
            at::Error::Future { .. } => {
                Refusal::new(Code::OutOfRange, "TIME_AHEAD", error.to_string()).into()
            }
            at::Error::Store(error) => store_refusal(&error).into(),
            at::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<NoCommit> for Status {
    fn from(error: NoCommit) -> Self {
        let refusal = Refusal::new(Code::NotFound, "NOT_FOUND", error.to_string());
        refusal.with("current_revision", &error.head).into()
    }
}

impl From<history::Error> for Status {
    fn from(error: history::Error) -> Self {
        match error {
            history::Error::Page(error) => error.into(),
            history::Error::NoCommit(error) => error.into(),
            history::Error::Past(error) => error.into(),
            history::Error::Store(error) => store_refusal(&error).into(),
        }
    }
}

impl From<blame::Error> for Status {
    fn from(error: blame::Error) -> Self {
        match error {
            blame::Error::Page(error) => error.into(),
            blame::Error::Past(error) => error.into(),
            blame::Error::NotRegistered { revision, .. } => {
                let refusal = Refusal::new(Code::NotFound, "NOT_FOUND", error.to_string());
                refusal.with("revision", &revision).into()
            }
            blame::Error::Store(error) => store_refusal(&error).into(),
            blame::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<sbom::Error> for Status {
    fn from(error: sbom::Error) -> Self {
        match error {
            sbom::Error::NotRegistered { revision, .. } => {
                let refusal = Refusal::new(Code::NotFound, "NOT_FOUND", error.to_string());
                refusal.with("revision", &revision).into()
            }
            sbom::Error::Past(error) => error.into(),
            sbom::Error::History(error) => error.into(),
            sbom::Error::Incomplete => {
                let code = Code::ResourceExhausted;
                Refusal::new(code, "SLOW_READER", error.to_string()).into()
            }
            sbom::Error::Internal(_) => internal(&error),
        }
    }
}

impl From<who_has::Error> for Status {
    fn from(error: who_has::Error) -> Self {
        match error {
            who_has::Error::Page(error) => error.into(),
            who_has::Error::Past(error) => error.into(),
            who_has::Error::Sbom(error) => error.into(),
        }
    }
}
