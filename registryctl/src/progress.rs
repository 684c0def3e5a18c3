//! Progress of long work on standard error, if that is a terminal.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

static IS_DISABLED: AtomicBool = AtomicBool::new(false);

/// Disables progress for the whole process.
pub(crate) fn disable() {
    IS_DISABLED.store(true, Ordering::Relaxed);
}

/// A bar or a spinner, cleared on drop.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work of a known size.
    pub(crate) fn bar(what: &'static str, total: u64) -> Self {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}");
        Self::start(what, ProgressBar::with_draw_target(Some(total), stderr()), style.ok())
    }

    /// Work of an unknown size.
    pub(crate) fn spinner(what: &'static str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        let progress = Self::start(what, ProgressBar::with_draw_target(None, stderr()), style.ok());
        progress.0.enable_steady_tick(Duration::from_millis(120));
        progress
    }

    fn start(what: &'static str, bar: ProgressBar, style: Option<ProgressStyle>) -> Self {
        if let Some(style) = style {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self(bar)
    }

    /// Sets the finished and the total amount.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    pub(crate) fn advance(&self, by: u64) {
        self.0.inc(by);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Standard error. If it is not a terminal, indicatif hides the progress.
fn stderr() -> ProgressDrawTarget {
    if IS_DISABLED.load(Ordering::Relaxed) {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    }
}
