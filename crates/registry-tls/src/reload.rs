//! Values built from files, and rebuilt when the files change.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{task::spawn_blocking, time::sleep};

use crate::InvalidFile;

/// Interval between reads of the files.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// A value built from files. New connections use the changed files; if those are invalid, the
/// previous value stays in use.
#[derive(Debug)]
pub struct Reloaded<T>(Arc<ArcSwap<T>>);

impl<T> Clone for Reloaded<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// How to read the files and build the value.
pub(crate) struct Source<R, F, T> {
    pub(crate) read: R,
    pub(crate) make: fn(&F) -> Result<T, InvalidFile>,
    /// Called for each change with `applied` or `rejected`.
    pub(crate) reloaded: fn(&'static str),
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Creates a value that never changes.
    pub fn fixed(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// Reloads changed files as long as the value is used.
    pub(crate) fn open<R, F>(source: Source<R, F, T>) -> Result<Self, InvalidFile>
    where
        R: Fn() -> Result<F, InvalidFile> + Send + Sync + 'static,
        F: PartialEq + Send + Sync + 'static,
    {
        let files = (source.read)()?;
        let reloaded = Self::fixed((source.make)(&files)?);
        tokio::spawn(reload_on_change(Arc::new(source), files, Arc::downgrade(&reloaded.0)));
        Ok(reloaded)
    }

    /// The current value.
    pub fn get(&self) -> Arc<T> {
        self.0.load_full()
    }
}

/// Reports each change once, even if it is invalid.
async fn reload_on_change<R, F, T>(
    source: Arc<Source<R, F, T>>,
    files: F,
    current: Weak<ArcSwap<T>>,
) where
    R: Fn() -> Result<F, InvalidFile> + Send + Sync + 'static,
    F: PartialEq + Send + Sync + 'static,
    T: Send + Sync + 'static,
{
    let mut seen = Ok(files);
    loop {
        sleep(READ_INTERVAL).await;
        let Some(current) = current.upgrade() else { return };
        let reader = Arc::clone(&source);
        // Fails only when the runtime shuts down.
        let Ok(read) = spawn_blocking(move || (reader.read)()).await else { return };
        if read == seen {
            continue;
        }
        seen = read;
        let made = seen.as_ref().map_err(Clone::clone).and_then(|files| (source.make)(files));
        match made {
            Ok(made) => {
                current.store(Arc::new(made));
                (source.reloaded)("applied");
                tracing::info!("TLS files changed; new connections use the new ones");
            }
            Err(reason) => {
                (source.reloaded)("rejected");
                let reason = reason.to_string();
                tracing::error!(
                    reason,
                    "TLS files changed and are invalid; the previous ones stay in use"
                );
            }
        }
    }
}
