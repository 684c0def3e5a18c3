//! Logs the output of a child outside of the protocol: shortened and rate-limited.

use std::time::{Duration, Instant};

use super::super::routing::TargetId;

/// Maximum characters of a line.
const MAX_CHARS: usize = 500;

/// Maximum lines in one window.
const MAX_LINES: u32 = 50;

const WINDOW: Duration = Duration::from_secs(10);

/// The log budget of one stream of one child.
#[derive(Debug)]
pub(super) struct ChildLog {
    server: TargetId,
    stream: &'static str,
    window: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl ChildLog {
    pub(super) fn new(server: TargetId, stream: &'static str) -> Self {
        Self { server, stream, window: None, lines: 0, suppressed: 0 }
    }

    /// Logs a line, if there is budget left.
    pub(super) fn write(&mut self, line: &[u8]) {
        if self.window.is_none_or(|start| start.elapsed() >= WINDOW) {
            self.report_suppressed();
            self.window = Some(Instant::now());
            self.lines = 0;
        }
        self.lines += 1;
        if self.lines > MAX_LINES {
            self.suppressed += 1;
            return;
        }
        let text: String = String::from_utf8_lossy(line)
            .chars()
            .filter(|character| !character.is_control())
            .take(MAX_CHARS)
            .collect();
        tracing::info!(
            target.server = %self.server, child.stream = self.stream, child.line = text,
            "a child process wrote a line"
        );
    }

    fn report_suppressed(&mut self) {
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed > 0 {
            tracing::warn!(
                target.server = %self.server, child.stream = self.stream, suppressed_lines = suppressed,
                "suppressed lines of a child process"
            );
        }
    }
}
