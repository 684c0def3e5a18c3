//! The contents of a polled source, one after another: taken, or refused until they change.

use registry_core::Digest;

use super::{
    Feed,
    content::{self, Rejected},
};

/// What becomes of contents.
#[derive(Debug)]
pub(super) struct Intake {
    feed: Feed,
    /// The name of the source's file, for remedies.
    name: String,
    last: Option<Digest>,
    refused: Option<String>,
}

impl Intake {
    pub(super) fn new(feed: Feed, name: String) -> Self {
        Self { feed, name, last: None, refused: None }
    }

    /// The source says the same as before.
    pub(super) fn unchanged(&self) {
        match &self.refused {
            None => self.feed.live(Some(std::time::Duration::ZERO), None),
            Some(reason) => self.feed.status.refused(reason),
        }
    }

    /// The source says something. Fails if it is refused and nothing else is there to serve.
    pub(super) async fn content(&mut self, bytes: Vec<u8>) -> Result<(), Rejected> {
        let (cache, last) = (self.feed.cache.clone(), self.last);
        let (name, admission) = (self.name.clone(), self.feed.admission.clone());
        let taking = tokio::task::spawn_blocking(move || {
            let digest = Digest::compute(&bytes);
            let is_new = last != Some(digest);
            (digest, is_new.then(|| content::take(&cache, (&name, &bytes), &admission)))
        });
        // It only fails where the runtime ends, or where it broke and said so.
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
