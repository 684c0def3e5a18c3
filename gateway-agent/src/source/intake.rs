//! The contents of a polled source, one after another: taken, or refused until they change.
//!
//! Deliberately absent: polling.

use super::{
    Feed,
    content::{self, Rejected},
};

/// What becomes of contents.
#[derive(Debug)]
pub(super) struct Intake {
    feed: Feed,
    refused: Option<String>,
}

impl Intake {
    pub(super) fn new(feed: Feed) -> Self {
        Self { feed, refused: None }
    }

    /// The source says the same as before.
    pub(super) fn unchanged(&self) {
        match &self.refused {
            None => self.feed.live(),
            Some(reason) => self.feed.status.refused(reason),
        }
    }

    /// The source says something new. Fails if it is refused and nothing else is there to serve.
    pub(super) async fn content(&mut self, bytes: Vec<u8>) -> Result<(), Rejected> {
        let (cache, modes) = (self.feed.cache.clone(), self.feed.startup);
        let taking = tokio::task::spawn_blocking(move || content::take(&cache, &bytes, modes));
        let Ok(taken) = taking.await else {
            self.refused = Some("reading it failed unexpectedly".to_owned());
            self.unchanged();
            return Ok(());
        };
        match taken {
            Ok(()) => self.refused = None,
            Err(e) if !self.feed.cache.has_catalog() => return Err(e),
            Err(e) => self.refused = Some(e.to_string()),
        }
        self.unchanged();
        Ok(())
    }
}
