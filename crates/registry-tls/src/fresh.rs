//! What is made of files, and made anew when they change.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{task::spawn_blocking, time::sleep};

use crate::InvalidFile;

/// How often the files are read.
const FRESH: Duration = Duration::from_secs(2);

/// What the files say now. What changed holds for new connections; where it cannot be used, what
/// was there before goes on.
#[derive(Debug)]
pub struct Fresh<T>(Arc<ArcSwap<T>>);

impl<T> Clone for Fresh<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// How the files are read, and what is made of them.
pub(crate) struct Source<R, F, T> {
    pub(crate) read: R,
    pub(crate) make: fn(&F) -> Result<T, InvalidFile>,
    /// Told of each change once: `taken` or `refused`.
    pub(crate) changed: fn(&'static str),
}

impl<T: Send + Sync + 'static> Fresh<T> {
    /// What never changes.
    pub fn fixed(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// Keeps reading for as long as it is used.
    pub(crate) fn open<R, F>(source: Source<R, F, T>) -> Result<Self, InvalidFile>
    where
        R: Fn() -> Result<F, InvalidFile> + Send + Sync + 'static,
        F: PartialEq + Send + Sync + 'static,
    {
        let files = (source.read)()?;
        let fresh = Self::fixed((source.make)(&files)?);
        tokio::spawn(keep_fresh(Arc::new(source), files, Arc::downgrade(&fresh.0)));
        Ok(fresh)
    }

    /// As of now.
    pub fn get(&self) -> Arc<T> {
        self.0.load_full()
    }
}

/// Tells each change once, whatever comes of it.
async fn keep_fresh<R, F, T>(source: Arc<Source<R, F, T>>, files: F, current: Weak<ArcSwap<T>>)
where
    R: Fn() -> Result<F, InvalidFile> + Send + Sync + 'static,
    F: PartialEq + Send + Sync + 'static,
    T: Send + Sync + 'static,
{
    let mut seen = Ok(files);
    loop {
        sleep(FRESH).await;
        let Some(current) = current.upgrade() else { return };
        let reader = Arc::clone(&source);
        // It fails only where the runtime ends.
        let Ok(read) = spawn_blocking(move || (reader.read)()).await else { return };
        if read == seen {
            continue;
        }
        seen = read;
        let made = seen.as_ref().map_err(Clone::clone).and_then(|files| (source.make)(files));
        match made {
            Ok(made) => {
                current.store(Arc::new(made));
                (source.changed)("taken");
                tracing::info!("the files of TLS have changed; new connections get the new ones");
            }
            Err(reason) => {
                (source.changed)("refused");
                let reason = reason.to_string();
                tracing::error!(reason, "the files of TLS have changed; those before go on");
            }
        }
    }
}
