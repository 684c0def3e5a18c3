//! Loads the contents of a polled source. Rejected content is not read again until it changes.

use registry_core::Digest;

use super::{
    Feed,
    content::{self, ContentRejected},
};
use crate::startup;

#[derive(Debug)]
pub(super) struct ContentLoader {
    feed: Feed,
    /// The file name, for remedies.
    name: String,
    last: Option<Digest>,
    rejected: Option<String>,
}

impl ContentLoader {
    pub(super) fn new(feed: Feed, name: String) -> Self {
        Self { feed, name, last: None, rejected: None }
    }

    /// Handles an unchanged source.
    pub(super) fn unchanged(&self) {
        match &self.rejected {
            None => self.feed.live(Some(std::time::Duration::ZERO), None),
            Some(reason) => self.feed.status.rejected(reason),
        }
    }

    /// Handles content. Fails if it is rejected and there is no catalog.
    pub(super) async fn content(&mut self, bytes: Vec<u8>) -> Result<(), ContentRejected> {
        let (cache, last) = (self.feed.cache.clone(), self.last);
        let (name, catalog_verifier) = (self.name.clone(), self.feed.catalog_verifier.clone());
        let taking = tokio::task::spawn_blocking(move || {
            let digest = Digest::compute(&bytes);
            let is_new = last != Some(digest);
            (
                digest,
                is_new.then(|| content::load_content(&cache, (&name, &bytes), &catalog_verifier)),
            )
        });
        // An error means a panic, which was logged, or shutdown.
        let Ok((digest, taken)) = taking.await else { return Ok(()) };
        self.last = Some(digest);
        match taken {
            None => {}
            Some(Ok(policy_findings)) => {
                startup::log_warnings(&policy_findings);
                self.rejected = None;
            }
            Some(Err(e)) if !self.feed.cache.has_catalog() => return Err(e),
            Some(Err(e)) => self.rejected = Some(e.to_string()),
        }
        self.unchanged();
        Ok(())
    }
}
