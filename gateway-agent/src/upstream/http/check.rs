//! Whether an upstream is still there, asked as cheaply as its era allows.
//!
//! Deliberately absent: what it answers; any answer is a sign of life.

use super::{HttpLink, Outgoing, answer};
use crate::upstream::error::Error;

impl HttpLink {
    /// Whether it answers. One that was not spoken to yet is given the benefit of the doubt.
    pub(in crate::upstream) async fn is_there(&self) -> bool {
        let Some(session) = self.session.load_full() else { return true };
        let ping = if session.is_legacy() { Outgoing::Ping } else { Outgoing::Discover };
        match self.exchange(&session, &ping, &[]).await {
            Ok(answer) => !answer.status.is_server_error() || answer::is_refusal(answer.status),
            Err(error) => {
                !matches!(error, Error::Unavailable { .. } | Error::Timeout { .. })
                    && !error.is_lost()
            }
        }
    }
}
