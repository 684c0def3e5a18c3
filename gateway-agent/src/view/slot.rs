//! The place of one audience's view at one moment.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::View;

/// One audience's view, made by the first who asks while the others wait.
#[derive(Debug, Default)]
pub(super) struct Slot {
    serial: u64,
    /// The view before, until this one is made.
    previous: Mutex<Option<Arc<View>>>,
    view: OnceLock<Arc<View>>,
}

impl Slot {
    pub(super) fn new(serial: u64, previous: Option<&Self>) -> Self {
        let last =
            previous.and_then(|slot| slot.view.get().cloned().or_else(|| slot.take_previous()));
        Self { serial, previous: Mutex::new(last), view: OnceLock::new() }
    }

    /// Of which moment.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// The view; who comes first makes it, from the one before if there was one.
    pub(super) fn view_or(&self, make: impl FnOnce(Option<Arc<View>>) -> Arc<View>) -> Arc<View> {
        self.view.get_or_init(|| make(self.take_previous())).clone()
    }

    fn take_previous(&self) -> Option<Arc<View>> {
        self.previous.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
