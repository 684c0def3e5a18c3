//! The client of execution graphs.

use std::sync::Arc;

use approval::Principal;
use ledger::LedgerError;
use registry_core::Timestamp;
use registry_proto::{
    convert::timestamp,
    v1::{self, trace_service_client::TraceServiceClient},
};

use crate::{Follower, connection::Connection};

/// Maximum calls of a page.
const PAGE_CALLS: i32 = 1_000;

/// Reports the calls of traces to a registry and reads them, or forwards both at a relay. It connects to one of the
/// servers, and to the next one after a failure.
#[derive(Debug)]
pub struct TraceClient {
    connection: Connection,
}

/// A finished call of a trace.
#[derive(Debug, Clone)]
pub struct TracedCall {
    /// The number of the call in its process.
    pub number: u64,
    /// The account that started the trace.
    pub account: Arc<Principal>,
    /// The id of the trace.
    pub trace_id: Arc<str>,
    /// The start of the call.
    pub started: Timestamp,
    /// The call as a JSON object.
    pub call: String,
}

/// The first calls of a trace.
#[derive(Debug, Clone)]
pub struct TracePage {
    /// The calls in the order of their starts.
    pub calls: Vec<StoredCall>,
    /// Whether the registry has more of them.
    pub has_more: bool,
}

/// A call in the registry.
#[derive(Debug, Clone)]
pub struct StoredCall {
    /// The id of the process that ran the call.
    pub process: String,
    /// The number of the call in its process.
    pub number: u64,
    /// The call as a JSON object.
    pub call: String,
}

impl TraceClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower) }
    }

    /// Sends calls of this gateway.
    pub async fn report(&self, process: &str, calls: &[TracedCall]) -> Result<(), LedgerError> {
        let calls = calls.iter().map(write).collect();
        let (process, gateway) = (process.to_owned(), String::new());
        let message = v1::ReportTraceCallsRequest { process, calls, gateway };
        self.forward_report(message).await.map(drop)
    }

    /// Reads the first calls of a trace of an account.
    pub async fn list(
        &self,
        account: &Principal,
        trace_id: &str,
    ) -> Result<TracePage, LedgerError> {
        let wanted = v1::ListTraceCallsRequest {
            trace_id: trace_id.to_owned(),
            issuer: account.issuer.clone(),
            subject: account.subject.clone(),
            page_size: PAGE_CALLS,
            page_token: String::new(),
        };
        let page = self.forward_list(wanted).await?;
        let calls = page.calls.into_iter().map(|call| StoredCall {
            process: call.process,
            number: call.number,
            call: call.call_json,
        });
        Ok(TracePage { calls: calls.collect(), has_more: !page.next_page_token.is_empty() })
    }

    /// Sends a report. One in the name of a gateway requires the role relay.
    pub async fn forward_report(
        &self,
        message: v1::ReportTraceCallsRequest,
    ) -> Result<v1::ReportTraceCallsResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        match TraceServiceClient::new(channel).report_trace_calls(request).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.connection.fail(&status).await),
        }
    }

    /// Sends a request for calls of an account.
    pub async fn forward_list(
        &self,
        message: v1::ListTraceCallsRequest,
    ) -> Result<v1::ListTraceCallsResponse, LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        // A page has at most 3 MiB of calls, and at least one.
        match TraceServiceClient::new(channel).list_trace_calls(request).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.connection.fail(&status).await),
        }
    }
}

fn write(call: &TracedCall) -> v1::ReportedTraceCall {
    let TracedCall { number, account, trace_id, started, call } = call;
    v1::ReportedTraceCall {
        number: *number,
        issuer: account.issuer.clone(),
        subject: account.subject.clone(),
        trace_id: trace_id.to_string(),
        start_time: Some(timestamp(*started)),
        call_json: call.clone(),
    }
}
