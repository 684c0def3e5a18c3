//! Execution graphs: stores the calls that gateways report, lists them, and deletes old ones.

use approval::Principal as Account;
use registry_core::Timestamp;

use super::{Error, Ledger, earlier};
use crate::{
    access::{Principal, Role, Roles},
    app::{
        ReadError,
        approvals::Viewer,
        page::{self, Page, PageRequest},
    },
    store::{self, StoredCall, TraceCursor, TraceLimits, TraceQuery, TraceReport},
};

/// The limits of stored calls.
const LIMITS: TraceLimits = TraceLimits { of_account: 10_000, total: 250_000 };
/// Approximate size of a call without its JSON, in bytes.
const CALL_BYTES: usize = 512;
/// The roles that see the calls of all accounts.
const AUDITORS: Roles = Roles::new(&[Role::Auditor, Role::Admin]);
/// The roles that read the calls of the account that they name: that of a caller of a gateway.
const GATEWAYS: Roles = Roles::new(&[Role::Gateway, Role::Relay]);

/// Calls of traces that a caller wants.
#[derive(Debug, Clone)]
pub struct TraceWanted {
    /// The id of the trace.
    pub trace_id: String,
    /// Only calls of this account, without its person.
    pub account: Option<Account>,
}

impl TraceWanted {
    /// Whether a gateway requests the calls of one of its callers.
    pub fn is_for_caller_of(&self, by: &Principal) -> bool {
        self.account.is_some() && by.roles.intersects(GATEWAYS)
    }

    /// The account whose calls the caller receives. `None`: all accounts.
    fn account_for(&self, by: &Principal) -> Option<Account> {
        if by.roles.intersects(AUDITORS) || self.is_for_caller_of(by) {
            return self.account.clone();
        }
        Some(Account { person: None, ..Viewer::new(by).account().clone() })
    }
}

impl Ledger {
    /// Stores the calls that an authenticated gateway reports, unless they were stored before.
    pub async fn add_trace_calls(&self, gateway: &str, report: &TraceReport) -> Result<(), Error> {
        Ok(self.store.add_trace_calls(gateway, report, LIMITS, self.clock.now()).await?)
    }

    /// Lists the calls of traces in the order of their starts.
    pub async fn trace_calls(
        &self,
        by: &Principal,
        wanted: &TraceWanted,
        page: &PageRequest,
    ) -> Result<Page<StoredCall>, ReadError> {
        let query = TraceQuery {
            trace_id: wanted.trace_id.clone(),
            account: wanted.account_for(by),
            after: page.cursor(read_cursor)?,
            limit: page.size + 1,
        };
        let _slot = self.trace_queries.take().await;
        let calls = self.store.trace_calls(&query).await?;
        let bytes_of = |call: &StoredCall| CALL_BYTES + call.call.len();
        let (items, has_more) = page::fill(calls.into_iter(), page.size, bytes_of);
        let next_page_token = page.next_token(&items, has_more, |last| write_cursor(last.at));
        Ok(Page { items, next_page_token })
    }

    /// Deletes old calls.
    pub(super) async fn expire_trace_calls(&self, now: Timestamp) -> Result<(), store::Error> {
        self.store.expire_trace_calls(earlier(now, self.config.trace_retention)).await
    }
}

fn write_cursor(TraceCursor { started, id }: TraceCursor) -> String {
    format!("{} {id}", started.as_millis())
}

fn read_cursor(text: &str) -> Option<TraceCursor> {
    let (started, id) = text.split_once(' ')?;
    let started = Timestamp::from_millis(started.parse().ok()?);
    Some(TraceCursor { started, id: id.parse().ok()? })
}
