//! Cancels a request at the upstream when its caller stops waiting.
//!
//! In the modern era the end of the connection cancels the request instead.

use std::sync::Arc;

use super::{Session, Transport};
use crate::message;

/// Sends `notifications/cancelled` to a legacy server when dropped.
pub(super) struct CancelOnDrop<'a> {
    pub(super) transport: &'a Arc<Transport>,
    pub(super) session: &'a Session,
    pub(super) id: Option<u64>,
}

impl CancelOnDrop<'_> {
    pub(super) fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.transport.post_in_background(self.session, message::cancelled(id), ());
        }
    }
}
