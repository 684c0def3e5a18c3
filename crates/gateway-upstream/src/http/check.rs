//! Whether an upstream is still there, asked as cheaply as its era allows.
//!
//! Any response is a sign of life.

use super::{Answer, HttpLink, Outgoing, answer};
use crate::error::Error;

impl HttpLink {
    /// Fails if it does not answer. One that was not spoken to yet is given the benefit of the doubt.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let Some(session) = self.session.load_full() else { return Ok(()) };
        let ping = if session.is_legacy() { Outgoing::Ping } else { Outgoing::Discover };
        match self.exchange(&session, &ping, &[]).await {
            Ok(Answer { status, .. })
                if status.is_server_error() && !answer::is_refusal(status) =>
            {
                Err(answer::no(status))
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
