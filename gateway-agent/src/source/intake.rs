//! Loads the contents of a polled source. Rejected content is not read again until it changes.

use registry_core::Digest;

use super::{
    Feed,
    content::{self, Rejected},
};

#[derive(Debug)]
pub(super) struct Intake {
    feed: Feed,
    /// The file name, for remedies.
    name: String,
    last: Option<Digest>,
    refused: Option<String>,
}

impl Intake {
    pub(super) fn new(feed: Feed, name: String) -> Self {
        Self { feed, name, last: None, refused: None }
    }

    /// Handles an unchanged source.
    pub(super) fn unchanged(&self) {
        match &self.refused {
            None => self.feed.live(Some(std::time::Duration::ZERO), None),
            Some(reason) => self.feed.status.refused(reason),
        }
    }

    /// Handles content. Fails if it is rejected and there is no catalog.
    pub(super) async fn content(&mut self, bytes: Vec<u8>) -> Result<(), Rejected> {
        let (cache, last) = (self.feed.cache.clone(), self.last);
        let (name, admission) = (self.name.clone(), self.feed.admission.clone());
        let taking = tokio::task::spawn_blocking(move || {
            let digest = Digest::of(&bytes);
            let is_new = last != Some(digest);
            (digest, is_new.then(|| content::take(&cache, (&name, &bytes), &admission)))
        });
        // An error means a panic, which was logged, or shutdown.
        let Ok((digest, taken)) = taking.await else { return Ok(()) };
        self.last = Some(digest);
        match taken {
            None => {}
            Some(Ok(())) => self.refused = None,
            Some(Err(e)) if !self.feed.cache.has_catalog() => return Err(e),
            Some(Err(e)) => self.refused = Some(e.to_string()),
        }
        self.unchanged();
        Ok(())
    }
}
