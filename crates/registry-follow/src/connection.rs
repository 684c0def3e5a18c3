//! A connection for single requests.

use ledger::LedgerError;
use tokio::sync::Mutex;
use tonic::{Code, Request, Status, transport::Channel};

use crate::{
    Follower,
    session::{Ended, Target, said_by},
};

/// A connection to one of the servers of a registry, and to the next one after a failure. It opens
/// when it is used.
#[derive(Debug)]
pub(crate) struct Connection {
    follower: Follower,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    target: Option<Target>,
    /// The number of attempts, which selects the server.
    attempts: usize,
}

impl Connection {
    pub(crate) fn new(follower: Follower) -> Self {
        Self { follower, state: Mutex::default() }
    }

    pub(crate) fn follower(&self) -> &Follower {
        &self.follower
    }

    /// The channel, and a request with the credentials.
    pub(crate) async fn request<T>(
        &self,
        message: T,
    ) -> Result<(Channel, Request<T>), LedgerError> {
        let Target { channel, authorization } = self.target().await?;
        let mut request = Request::new(message);
        if let Some(authorization) = authorization {
            request.metadata_mut().insert("authorization", authorization);
        }
        Ok((channel, request))
    }

    async fn target(&self) -> Result<Target, LedgerError> {
        let mut state = self.state.lock().await;
        if let Some(target) = &state.target {
            return Ok(target.clone());
        }
        let addresses = &self.follower.addresses;
        let address = addresses.get(state.attempts % addresses.len().max(1));
        let no_server = || LedgerError::Unavailable("the registry has no address".to_owned());
        let address = address.ok_or_else(no_server)?;
        state.attempts = state.attempts.wrapping_add(1);
        let target = self.follower.connect(address).await.map_err(|ended| match ended {
            Ended::Lost(reason)
            | Ended::ScopeLimit(reason)
            | Ended::Rejected(reason)
            | Ended::Final(reason) => LedgerError::Unavailable(format!("{address}: {reason}")),
        })?;
        state.target = Some(target.clone());
        Ok(target)
    }

    /// The error of a failed request. Drops the connection, unless the server rejects the report: the next request
    /// uses another server and the current credentials.
    pub(crate) async fn fail(&self, status: &Status) -> LedgerError {
        let reason = said_by(status);
        if let Code::InvalidArgument | Code::FailedPrecondition = status.code() {
            return LedgerError::Rejected(reason);
        }
        self.state.lock().await.target = None;
        LedgerError::Unavailable(reason)
    }
}
