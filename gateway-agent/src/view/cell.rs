//! The cell of one audience's view in one snapshot.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::View;

/// One audience's view, computed by the first caller while others wait.
#[derive(Debug, Default)]
pub(super) struct ViewCell {
    serial: u64,
    /// The previous view, until this one is computed.
    previous: Mutex<Option<Arc<View>>>,
    view: OnceLock<Arc<View>>,
}

impl ViewCell {
    pub(super) fn new(serial: u64, previous: Option<&Self>) -> Self {
        let last =
            previous.and_then(|cell| cell.view.get().cloned().or_else(|| cell.take_previous()));
        Self { serial, previous: Mutex::new(last), view: OnceLock::new() }
    }

    /// The snapshot's serial.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the view. The first call computes it, based on the previous view.
    pub(super) fn view_or(&self, make: impl FnOnce(Option<Arc<View>>) -> Arc<View>) -> Arc<View> {
        self.view.get_or_init(|| make(self.take_previous())).clone()
    }

    fn take_previous(&self) -> Option<Arc<View>> {
        self.previous.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
