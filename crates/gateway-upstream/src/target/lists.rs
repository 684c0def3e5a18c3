//! Fetches the lists of a target: periodically, after change notifications, and with a delay after
//! failures.

use std::{sync::Arc, time::Duration};

use retry_backoff::{Backoff, jittered};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::Target;
use crate::{
    definitions::{Definitions, Lists, Tools},
    error::{Error, Phase, ProtocolViolation},
    features::Features,
    message::{Catalogue, Outgoing},
};

/// Maximum pages of one list.
const MAX_PAGES: usize = 1000;

/// The limits of a whole list in bytes and time, as a multiple of those of one page.
const WHOLE_LIST: u32 = 4;

/// Time limit of fetching the card of an agent.
const CARD: Duration = Duration::from_secs(10);

/// Time limit of a health check.
const CHECK: Duration = Duration::from_secs(4);

impl Target {
    /// Fetches the lists periodically, on request, and with a delay after failures.
    pub(super) async fn keep_listed(&self) {
        let mut backoff = Backoff::new(self.timing.retry_first, self.timing.retry_longest);
        loop {
            let turn = self.listing.lock().await;
            let pending = self.publisher.pending();
            let listed = tokio::select! {
                listed = self.list() => listed,
                error = self.silent() => Err(error),
            };
            self.publisher.settle(pending, listed.is_ok());
            let wait = if listed.is_ok() {
                backoff.reset();
                jittered(self.timing.relist)
            } else {
                backoff.next_delay()
            };
            let is_up = listed.is_ok();
            self.note(listed);
            drop(turn);
            if is_up {
                Box::pin(self.refresh_card()).await;
            }
            // Limits the rate of fetches when many are requested.
            tokio::time::sleep(self.timing.retry_first.min(wait)).await;
            self.until_due(wait).await;
        }
    }

    /// Fetches the lists and updates the state, unless the periodic fetch has just succeeded.
    pub(super) async fn list_if_not_up(&self) {
        let _turn = self.listing.lock().await;
        if !self.is_up() {
            let listed = self.list().await;
            self.note(listed);
        }
    }

    /// Waits until the lists must be fetched: after this time, on request, or when a health check
    /// fails.
    async fn until_due(&self, wait: Duration) {
        tokio::select! {
            error = self.silent() => self.note(Err(error)),
            _ = timeout(wait, self.publisher.refreshed()) => {}
        }
    }

    /// Resolves when a health check of the target fails.
    async fn silent(&self) -> Error {
        loop {
            tokio::time::sleep(self.timing.check).await;
            if self.is_up()
                && let Err(error) = self.link.check(CHECK).await
            {
                return error;
            }
        }
    }

    /// Fetches the card of an agent, and publishes a changed one. Without an answer, the known card
    /// stays: an agent works without its card.
    async fn refresh_card(&self) {
        let Ok(link) = self.link.agent() else { return };
        let after_ms = u64::try_from(CARD.as_millis()).unwrap_or(u64::MAX);
        let refreshed = timeout(CARD, link.refresh_card()).await;
        match refreshed.unwrap_or(Err(Error::Timeout { phase: Phase::List, after_ms })) {
            Ok(false) => {}
            Ok(true) => {
                let lists = self.publish.borrow().lists(&self.server).cloned();
                if let Some(Lists { features, .. }) = lists {
                    self.publish(&Arc::new(Tools::of_agent(link.card())), features);
                }
            }
            Err(error) => {
                tracing::debug!(target.server = %self.server, %error, "cannot read the agent card");
            }
        }
    }

    /// Fetches and publishes all lists.
    pub(super) async fn list(&self) -> Result<(), Error> {
        let after_ms = self.limits.list_timeout_ms.saturating_mul(WHOLE_LIST.into());
        let lists = timeout(Duration::from_millis(after_ms), self.fetch()).await;
        let (tools, features) =
            lists.unwrap_or(Err(Error::Timeout { phase: Phase::List, after_ms }))?;
        self.publish(&Arc::new(tools), Arc::new(features));
        Ok(())
    }

    async fn fetch(&self) -> Result<(Tools, Features), Error> {
        let mut tools = Tools::of_agent(self.link.agent().ok().and_then(|link| link.card()));
        self.fetch_pages(Catalogue::Tools, |page| tools.add_page(page)).await?;
        let mut features = Features::new(self.link.about(), self.prefix.clone());
        for (what, capability) in [
            (Catalogue::Prompts, "prompts"),
            (Catalogue::Resources, "resources"),
            (Catalogue::Templates, "resources"),
        ] {
            if !features.capabilities().has(capability) {
                continue;
            }
            let add = |page: &RawValue| features.add_page(what, page);
            match self.fetch_pages(what, add).await {
                // Some servers have resources but no templates. That must not fail the tools.
                Ok(()) | Err(Error::Rpc { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((tools, features))
    }

    /// Fetches all pages of a list.
    async fn fetch_pages(
        &self,
        what: Catalogue,
        mut add: impl FnMut(&RawValue) -> Result<Option<String>, Error>,
    ) -> Result<(), Error> {
        let limit_bytes = self.limits.response_bytes.saturating_mul(WHOLE_LIST as usize);
        let (mut cursor, mut seen_bytes) = (None::<String>, 0);
        for _ in 0..MAX_PAGES {
            let page = self.list_page(what, cursor.as_deref()).await?;
            seen_bytes += page.get().len();
            if seen_bytes > limit_bytes {
                return Err(Error::TooLarge { limit_bytes });
            }
            cursor = add(&page)?;
            if cursor.is_none() {
                return Ok(());
            }
        }
        Err(ProtocolViolation::EndlessList.into())
    }

    /// Fetches one page. Listing is idempotent, so it is retried after a lost connection.
    async fn list_page(
        &self,
        what: Catalogue,
        cursor: Option<&str>,
    ) -> Result<Box<RawValue>, Error> {
        let outgoing = Outgoing::List { what, cursor };
        let attempts = async {
            match self.link.request(&outgoing, &[]).await {
                Err(error) if error.is_lost() => self.link.request(&outgoing, &[]).await,
                outcome => outcome,
            }
        };
        let limit_ms = self.limits.list_timeout_ms;
        match timeout(Duration::from_millis(limit_ms), attempts).await {
            Ok(reply) => reply?.0.into_result(),
            Err(_) => Err(Error::Timeout { phase: Phase::List, after_ms: limit_ms }),
        }
    }

    fn publish(&self, tools: &Arc<Tools>, features: Arc<Features>) {
        self.tools.store(Arc::clone(tools));
        let transport = Arc::clone(&self.transport);
        let lists = Lists { tools: Arc::clone(tools), features, transport };
        // Checked under the lock: a reconfiguration first retires the target, then drops its lists.
        let replace = |all: &mut Arc<Definitions>| {
            !self.retired.is_cancelled() && Arc::make_mut(all).replace(&self.server, lists)
        };
        if self.publish.send_if_modified(replace) {
            tools.warn(&self.server);
        }
    }
}

#[cfg(test)]
mod tests {
    use gateway_protocol::naming::Prefix;

    use super::*;
    use crate::{TargetConfig, TargetId, UpstreamLimits, Upstreams, tests::http_at};

    #[tokio::test]
    async fn late_list_of_replaced_target_is_dropped() {
        let server: TargetId = "server/a@1.0.0".parse().unwrap();
        let target_at = |url: &str| TargetConfig {
            server: server.clone(),
            prefix: Prefix::parse("").unwrap(),
            exposes: None,
            tenant: None,
            transport: http_at(url),
            timeout: None,
            auto_start: true,
        };
        let limits = UpstreamLimits::default();
        let upstreams = Upstreams::start(&[target_at("http://127.0.0.1:1/old")], limits);
        let replaced = upstreams.targets.running().next().unwrap();
        let is_listed = || upstreams.definitions().borrow().lists(&server).is_some();
        replaced.publish(&Arc::default(), Arc::default());
        assert!(is_listed());
        upstreams.configure(&[target_at("http://127.0.0.1:1/new")], limits);
        assert!(!is_listed());
        replaced.publish(&Arc::default(), Arc::default());
        assert!(!is_listed());
    }
}
