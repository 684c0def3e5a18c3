//! Progress of long work, on standard error and only where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar or a spinner; it clears itself when it is dropped.
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

    /// So much is done, of so much by now.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// So much more is done.
    pub(crate) fn advance(&self, by: u64) {
        self.0.inc(by);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Hidden by indicatif itself where standard error is not a terminal.
fn stderr() -> ProgressDrawTarget {
    ProgressDrawTarget::stderr()
}
