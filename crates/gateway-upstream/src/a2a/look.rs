//! Which version of A2A an agent speaks: it is asked for a task that nobody has begun, which changes
//! nothing.
//!
//! Agent cards are not read: a card may differ from what its agent does.

use std::{sync::Arc, time::Duration};

use gateway_protocol::{jsonrpc::code::METHOD_NOT_FOUND, mcp::RpcError};
use tokio::time::timeout;

use super::{
    AgentLink, Manner,
    dialect::{self, Dialect},
};
use crate::{
    error::{Breach, Error, Phase},
    reply::Reply,
};

/// The id of a task that nobody has begun.
const NO_TASK: &str = "none";

/// What an agent shows of a version.
enum Look {
    Speaks,
    /// It does not say that it does not, nor anything that only one who speaks it would.
    Perhaps,
    /// It does not, and how it said so.
    Refuses(Error),
}

impl AgentLink {
    /// Fails if the agent does not show that it is there; any answer does.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let dialect = self.dialect().await?;
        self.post((dialect, dialect.get_task(NO_TASK)), &Manner::default()).await.map(drop)
    }

    /// What it speaks; the first one who needs to know finds out, the others wait for that. What fails here
    /// fails before anything was sent.
    pub(super) async fn dialect(&self) -> Result<Dialect, Error> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let look = Box::pin(self.find_dialect());
        self.looks.make(&self.way.server, || self.known(), look).await
    }

    /// Finds out what it speaks, and keeps that in mind. What is not certain does not replace what was
    /// known.
    pub(super) async fn find_dialect(&self) -> Result<Dialect, Error> {
        let after_ms = self.way.client.limits().list_timeout_ms;
        let looked = timeout(Duration::from_millis(after_ms), self.look_at_all()).await;
        let looked = looked.unwrap_or(Err(Error::Timeout { phase: Phase::Connect, after_ms }));
        let found = looked.map_err(|error| error.before_request(&self.way.server))?;
        self.dialect.store(Some(Arc::new(found)));
        Ok(found)
    }

    fn known(&self) -> Option<Dialect> {
        self.dialect.load().as_deref().copied()
    }

    async fn look_at_all(&self) -> Result<Dialect, Error> {
        let (mut perhaps, mut why) = (None, Breach::NoCommonVersion.into());
        for dialect in Dialect::ALL {
            match self.look_for(dialect).await? {
                Look::Speaks => return Ok(dialect),
                Look::Perhaps => perhaps = perhaps.or(Some(dialect)),
                Look::Refuses(error) => why = error,
            }
        }
        perhaps.map(|perhaps| self.known().unwrap_or(perhaps)).ok_or(why)
    }

    async fn look_for(&self, dialect: Dialect) -> Result<Look, Error> {
        match self.post((dialect, dialect.get_task(NO_TASK)), &Manner::default()).await {
            Ok(Reply::Result(_)) => Ok(Look::Speaks),
            Ok(Reply::Error(error)) if error.code == dialect::TASK_NOT_FOUND => Ok(Look::Speaks),
            Ok(Reply::Error(error)) if is_about_dialect(&error) => {
                Ok(Look::Refuses(Breach::NoCommonVersion.into()))
            }
            Ok(Reply::Error(_)) => Ok(Look::Perhaps),
            // Refused without JSON-RPC, which one who speaks it would not do.
            Err(Error::Protocol { what: what @ Breach::Status(400..500) }) => {
                Ok(Look::Refuses(what.into()))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether an agent refused a request unread, because it does not know the method or the version.
pub(super) fn is_about_dialect(error: &RpcError) -> bool {
    matches!(error.code, METHOD_NOT_FOUND | dialect::VERSION_NOT_SUPPORTED)
}
