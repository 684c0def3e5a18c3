//! Usage of tools by callers: adds the reports of gateways, sums usage for operators, and deletes old usage.

use std::time::Duration;

use ledger::usage::UsageReport;
use registry_core::Timestamp;

use super::{Error, GatewayLedger, Ledger, earlier};
use crate::{
    access::Principal,
    app::{
        ReadError,
        page::{Page, PageRequest},
    },
    store::{self, UsageAges, UsageGroup, UsageGroupKey, UsageQuery},
};

/// Usage older than this is kept by hour.
const MINUTES_KEPT: Duration = Duration::from_hours(48);

impl GatewayLedger {
    /// Adds the usage that an authenticated gateway reports, unless it was added before.
    pub async fn report_usage(&self, gateway: &str, report: &UsageReport) -> Result<(), Error> {
        match self {
            Self::Own(ledger) => ledger.add_usage(gateway, report).await,
            Self::Upstream(ledger) => ledger.report_usage(gateway, report).await,
        }
    }
}

impl Ledger {
    async fn add_usage(&self, gateway: &str, report: &UsageReport) -> Result<(), Error> {
        let now = self.clock.now();
        let UsageAges { hours_before, .. } = self.usage_ages(now);
        Ok(self.store.add_usage(gateway, report, hours_before, now).await?)
    }

    /// Sums usage by group. A caller with scopes receives the usage of their tools and agents.
    pub async fn query_usage(
        &self,
        by: &Principal,
        wanted: UsageQuery,
        page: &PageRequest,
    ) -> Result<Page<UsageGroup>, ReadError> {
        let after = page.cursor(|cursor| serde_json::from_str::<UsageGroupKey>(cursor).ok())?;
        let scopes = by.scopes.selectors().clone();
        let query = UsageQuery { after, scopes, limit: page.size + 1, ..wanted };
        let _slot = self.usage_queries.take().await;
        let groups = self.store.query_usage(&query).await?;
        let place = |last: &UsageGroup| serde_json::to_string(&last.key).unwrap_or_default();
        Ok(page.page(groups, place))
    }

    /// Deletes old usage.
    pub(super) async fn expire_usage(&self, now: Timestamp) -> Result<(), store::Error> {
        self.store.expire_usage(self.usage_ages(now)).await
    }

    fn usage_ages(&self, now: Timestamp) -> UsageAges {
        UsageAges {
            hours_before: earlier(now, MINUTES_KEPT),
            deleted_before: earlier(now, self.config.usage_retention),
        }
    }
}
