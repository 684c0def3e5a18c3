//! Usage of tools by callers: adds the reports of gateways, sums usage for operators, and deletes old usage.

use std::{sync::Arc, time::Duration};

use clap::Args;
use ledger::usage::UsageReport;
use registry_core::{Timestamp, parse_positive_duration};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    ReadError,
    concurrency::ConcurrencyLimit,
    ledger::earlier,
    page::{Page, PageRequest},
};
use crate::{
    access::Principal,
    clock::Clock,
    store::{self, Store, UsageAges, UsageGroup, UsageGroupKey, UsageQuery},
};

/// Usage older than this is kept by hour.
const MINUTES_KEPT: Duration = Duration::from_hours(48);
/// Maximum number of concurrent queries, so that they leave connections of the database to other reads.
const QUERIES: usize = 2;
/// Interval between deletions.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(10);

/// Retention of usage.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Usage")]
pub struct UsageConfig {
    /// Delete the usage of tools after this time; after 48h it is kept by hour
    #[arg(long, env = "REGISTRY_USAGE_RETENTION", default_value = "2160h", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub usage_retention: Duration,
}

/// The usage that gateways reported.
pub struct UsageLog {
    store: Store,
    clock: Arc<dyn Clock>,
    currency: String,
    retention: Duration,
    queries: ConcurrencyLimit,
}

impl UsageLog {
    /// The usage in a database.
    pub fn new(store: Store, clock: Arc<dyn Clock>, currency: String, retention: Duration) -> Self {
        Self { store, clock, currency, retention, queries: ConcurrencyLimit::new(QUERIES) }
    }

    /// The currency of all costs.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Starts the deletion of old usage, until the server drains.
    pub fn start(self: &Arc<Self>, draining: CancellationToken) {
        let log = self.clone();
        tokio::spawn(async move { draining.run_until_cancelled(log.expire()).await });
    }

    /// Adds a report of an authenticated gateway, unless it was added before.
    pub async fn report(&self, gateway: &str, report: &UsageReport) -> Result<(), store::Error> {
        let now = self.clock.now();
        let UsageAges { hours_before, .. } = self.ages(now);
        self.store.add_usage(gateway, report, hours_before, now).await
    }

    /// Sums usage by group. A caller with scopes receives the usage of their tools and agents.
    pub async fn query(
        &self,
        by: &Principal,
        wanted: UsageQuery,
        page: &PageRequest,
    ) -> Result<Page<UsageGroup>, ReadError> {
        let after = page.cursor(|cursor| serde_json::from_str::<UsageGroupKey>(cursor).ok())?;
        let scopes = by.scopes.selectors().clone();
        let query = UsageQuery { after, scopes, limit: page.size + 1, ..wanted };
        let _slot = self.queries.take().await;
        let groups = self.store.query_usage(&query).await?;
        let place = |last: &UsageGroup| serde_json::to_string(&last.key).unwrap_or_default();
        Ok(page.page(groups, place))
    }

    fn ages(&self, now: Timestamp) -> UsageAges {
        UsageAges {
            hours_before: earlier(now, MINUTES_KEPT),
            deleted_before: earlier(now, self.retention),
        }
    }

    /// Deletes old usage from time to time.
    async fn expire(&self) {
        loop {
            if let Err(error) = self.store.expire_usage(self.ages(self.clock.now())).await {
                tracing::warn!(%error, "cannot delete old usage, retrying");
            }
            sleep(EXPIRY_INTERVAL).await;
        }
    }
}
