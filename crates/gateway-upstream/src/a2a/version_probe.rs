//! Detects the A2A version of an agent by asking for an unknown task, which has no effects.
//!
//! Agent cards are not used: a card may differ from the behavior of its agent.

use std::{sync::Arc, time::Duration};

use ::a2a::{ErrorKind, Version, tool::Call};
use gateway_protocol::mcp::RpcError;
use tokio::time::timeout;

use super::{AgentLink, RequestMeta};
use crate::{
    error::{Error, Phase, ProtocolViolation},
    reply::Reply,
};

/// The id of a task that does not exist.
const NO_TASK: &str = "none";

/// The response of an agent to a probe of one version.
enum ProbeResult {
    Speaks,
    /// The agent may support the version.
    Perhaps,
    /// The agent does not support the version, with its error.
    Refuses(Error),
}

impl AgentLink {
    /// Fails if the agent does not respond. Every response counts, including errors.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let version = self.supported_version().await?;
        let call = Call::get_task(version, NO_TASK);
        self.post((version, call), &RequestMeta::default()).await.map(drop)
    }

    /// Returns the version of the agent. Concurrent callers share one probe. Failures here happen
    /// before the request is sent.
    pub(super) async fn supported_version(&self) -> Result<Version, Error> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let look = Box::pin(self.probe_version());
        self.looks.make(&self.transport.server, || self.known(), look).await
    }

    /// Probes the version of the agent and caches it. An uncertain result does not replace a known
    /// version.
    pub(super) async fn probe_version(&self) -> Result<Version, Error> {
        let after_ms = self.transport.client.limits().list_timeout_ms;
        let looked = timeout(Duration::from_millis(after_ms), self.look_at_all()).await;
        let looked = looked.unwrap_or(Err(Error::Timeout { phase: Phase::Handshake, after_ms }));
        let found = looked.map_err(|error| error.before_request(&self.transport.server))?;
        self.version.store(Some(Arc::new(found)));
        Ok(found)
    }

    fn known(&self) -> Option<Version> {
        self.version.load().as_deref().copied()
    }

    async fn look_at_all(&self) -> Result<Version, Error> {
        let (mut perhaps, mut why) = (None, ProtocolViolation::NoCommonVersion.into());
        for version in Version::ALL {
            match self.look_for(version).await? {
                ProbeResult::Speaks => return Ok(version),
                ProbeResult::Perhaps => perhaps = perhaps.or(Some(version)),
                ProbeResult::Refuses(error) => why = error,
            }
        }
        perhaps.map(|perhaps| self.known().unwrap_or(perhaps)).ok_or(why)
    }

    async fn look_for(&self, version: Version) -> Result<ProbeResult, Error> {
        let call = Call::get_task(version, NO_TASK);
        match self.post((version, call), &RequestMeta::default()).await {
            Ok(Reply::Result(_)) => Ok(ProbeResult::Speaks),
            Ok(Reply::Error(error)) if error.code == ErrorKind::TaskNotFound.code() => {
                Ok(ProbeResult::Speaks)
            }
            Ok(Reply::Error(error)) if is_version_error(&error) => {
                Ok(ProbeResult::Refuses(ProtocolViolation::NoCommonVersion.into()))
            }
            Ok(Reply::Error(_)) => Ok(ProbeResult::Perhaps),
            // An agent that supports the version rejects requests with JSON-RPC errors.
            Err(Error::Protocol { what: what @ ProtocolViolation::Status(400..500) }) => {
                Ok(ProbeResult::Refuses(what.into()))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether an agent rejected a request unprocessed because it does not know the method or the
/// version.
pub(super) fn is_version_error(error: &RpcError) -> bool {
    let kind = ErrorKind::of_code(error.code);
    matches!(kind, ErrorKind::MethodNotFound | ErrorKind::VersionNotSupported)
}
