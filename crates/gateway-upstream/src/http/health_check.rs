//! The health check of an upstream, with the cheapest request of its era.
//!
//! Any response is a sign of life.

use super::{HttpLink, Outgoing, PostResponse, answer};
use crate::error::Error;

impl HttpLink {
    /// Fails if the upstream does not respond. Before the first request it counts as healthy.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let Some(session) = self.session.load_full() else { return Ok(()) };
        let ping = if session.is_legacy() { Outgoing::Ping } else { Outgoing::Discover };
        match self.exchange(&session, &ping, &[]).await {
            Ok(PostResponse { status, .. })
                if status.is_server_error() && !answer::is_refusal(status) =>
            {
                Err(answer::status_error(status))
            }
            Err(error)
                if error.is_lost()
                    || matches!(error, Error::Unavailable { .. } | Error::Timeout { .. }) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}
