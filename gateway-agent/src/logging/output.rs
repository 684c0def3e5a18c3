//! Standard error as the output of logs.
//!
//! Audit events are collected and written together, because a system call per event took 5 % of the
//! CPU time of a call. Every other event is written at once, after the audit events before it.

use std::{
    io::{self, Stderr, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum delay of an audit event. A process that is killed loses the events of this time.
const AUDIT_DELAY: Duration = Duration::from_millis(10);
/// Maximum number of collected bytes. The thread that exceeds it writes them.
const CAPACITY: usize = 64 * 1024;
/// The target of audit events.
const AUDIT: &str = "audit";

/// The output of all events of the process.
#[derive(Debug, Clone)]
pub struct LogOutput {
    shared: Arc<Shared<Stderr>>,
}

/// Writes the collected events when it is dropped.
#[derive(Debug)]
pub struct FlushGuard(LogOutput);

impl LogOutput {
    /// Starts the thread that writes collected events.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn start() -> io::Result<(Self, FlushGuard)> {
        let shared = Arc::new(Shared::new(io::stderr()));
        let collected = Arc::clone(&shared);
        thread::Builder::new().name("audit".to_owned()).spawn(move || {
            loop {
                collected.wait();
                thread::sleep(AUDIT_DELAY);
                collected.flush();
            }
        })?;
        let output = Self { shared };
        Ok((output.clone(), FlushGuard(output)))
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.0.shared.flush();
    }
}

impl<'a> MakeWriter<'a> for LogOutput {
    type Writer = EventWriter<'a>;

    fn make_writer(&'a self) -> EventWriter<'a> {
        EventWriter { shared: &self.shared, is_audit: false }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> EventWriter<'a> {
        EventWriter { shared: &self.shared, is_audit: event.target() == AUDIT }
    }
}

/// Writes one event.
#[derive(Debug)]
pub struct EventWriter<'a> {
    shared: &'a Shared<Stderr>,
    is_audit: bool,
}

impl Write for EventWriter<'_> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if self.is_audit {
            self.shared.collect(event);
        } else {
            self.shared.write(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The collected events and the file. A thread that needs both locks takes that of the file first.
#[derive(Debug)]
struct Shared<F> {
    file: Mutex<F>,
    collected: Mutex<Vec<u8>>,
    /// Is notified when the first event is collected.
    is_waiting: Condvar,
}

impl<F: Write> Shared<F> {
    fn new(file: F) -> Self {
        Self { file: Mutex::new(file), collected: Mutex::default(), is_waiting: Condvar::new() }
    }

    fn collect(&self, event: &[u8]) {
        let mut collected = lock(&self.collected);
        let was_empty = collected.is_empty();
        collected.extend_from_slice(event);
        let is_full = collected.len() >= CAPACITY;
        drop(collected);
        if is_full {
            self.flush();
        } else if was_empty {
            self.is_waiting.notify_one();
        }
    }

    /// Waits for collected events.
    fn wait(&self) {
        let collected = lock(&self.collected);
        let waited = self.is_waiting.wait_while(collected, |collected| collected.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn flush(&self) {
        // An error of standard error has no reader.
        let _ = self.write(&[]);
    }

    /// Writes the collected events and one more.
    fn write(&self, event: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.file);
        let collected = std::mem::take(&mut *lock(&self.collected));
        file.write_all(&collected)?;
        file.write_all(event)
    }
}

/// A thread that panics leaves complete events.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_in_their_order() {
        let shared = Shared::new(Vec::new());
        shared.collect(b"call 1\n");
        shared.write(b"error\n").unwrap();
        shared.collect(b"call 2\n");
        assert_eq!(*lock(&shared.file), b"call 1\nerror\n");
        shared.flush();
        assert_eq!(*lock(&shared.file), b"call 1\nerror\ncall 2\n");
    }

    #[test]
    fn collected_events_are_bounded() {
        let shared = Shared::new(Vec::new());
        let event = vec![b'a'; CAPACITY / 2];
        shared.collect(&event);
        assert!(lock(&shared.file).is_empty());
        shared.collect(&event);
        assert_eq!(lock(&shared.file).len(), CAPACITY);
        assert!(lock(&shared.collected).is_empty());
    }

    #[test]
    fn first_collected_event_wakes_writer() {
        let shared = Arc::new(Shared::new(Vec::new()));
        let waiting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.wait();
                shared.flush();
            })
        };
        shared.collect(b"call\n");
        waiting.join().unwrap();
        assert_eq!(*lock(&shared.file), b"call\n");
    }
}
