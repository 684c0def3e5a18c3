//! `TraceService`: reports of gateways, and the calls of traces. A relay forwards the messages of its gateways.

use std::mem;

use approval::{Principal as Account, limits::TEXT_BYTES};
use registry_proto::{
    convert,
    v1::{self, trace_service_server::TraceService},
};
use serde_json::{Map, Value};
use tonic::{Request, Response, Status};

use super::{
    Service, access,
    deadline::begin_write,
    invalid::{self, InvalidRequest, field},
    ledger::reported_gateway,
};
use crate::{
    app::{
        ledger::{GatewayLedger, TraceWanted},
        page::Page,
    },
    store::{ReportedCall, StoredCall, TraceReport},
};

/// Maximum calls of a report.
const CALLS: usize = 1_000;
/// Length of the id of a process.
const PROCESS_DIGITS: usize = 32;
/// Maximum length of the id of a trace, in bytes: 128 characters.
const TRACE_ID_BYTES: usize = 512;
/// Maximum size of a call, in bytes.
const CALL_BYTES: usize = 16 * 1024;

#[tonic::async_trait]
impl TraceService for Service {
    async fn report_trace_calls(
        &self,
        mut request: Request<v1::ReportTraceCallsRequest>,
    ) -> Result<Response<v1::ReportTraceCallsResponse>, Status> {
        let caller = access::principal(&request)?;
        let gateway = reported_gateway(&caller, mem::take(&mut request.get_mut().gateway))?;
        begin_write(&request);
        let mut message = request.into_inner();
        match &self.app.ledger {
            GatewayLedger::Own(ledger) => {
                let (report, rejected) = read_report(message)?;
                if let Some(problem) = rejected.first() {
                    let calls = rejected.len();
                    tracing::warn!(%gateway, calls, %problem, "rejected calls of traces; update the gateway");
                }
                ledger.add_trace_calls(&gateway, &report).await?;
            }
            GatewayLedger::Upstream(upstream) => {
                message.gateway = gateway.to_string();
                upstream.forward(upstream.traces().forward_report(message)).await?;
            }
        }
        Ok(Response::new(v1::ReportTraceCallsResponse {}))
    }

    async fn list_trace_calls(
        &self,
        request: Request<v1::ListTraceCallsRequest>,
    ) -> Result<Response<v1::ListTraceCallsResponse>, Status> {
        let by = access::principal(&request)?;
        let mut request = request.into_inner();
        let wanted = read_wanted(&request)?;
        if let GatewayLedger::Upstream(upstream) = &self.app.ledger
            && wanted.is_for_caller_of(&by)
        {
            let listed = upstream.forward(upstream.traces().forward_list(request)).await?;
            return Ok(Response::new(listed));
        }
        let ledger = self.ledger()?;
        let page = page_request!("ListTraceCalls", request);
        let Page { items, next_page_token } = ledger.trace_calls(&by, &wanted, &page).await?;
        let calls = items.into_iter().map(encode).collect();
        Ok(Response::new(v1::ListTraceCallsResponse { calls, next_page_token }))
    }
}

/// A report with its valid calls, and the problems of the others.
fn read_report(
    message: v1::ReportTraceCallsRequest,
) -> Result<(TraceReport, Vec<InvalidRequest>), InvalidRequest> {
    let v1::ReportTraceCallsRequest { process, calls, gateway: _ } = message;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if process.len() != PROCESS_DIGITS || !process.bytes().all(is_digit) {
        return Err(field("process", &"32 hexadecimal digits are required"));
    }
    let mut rejected = Vec::new();
    let calls = invalid::list("calls", calls, CALLS)?.into_iter();
    let calls = calls.filter_map(|call| read_call(call).map_err(|e| rejected.push(e)).ok());
    let calls = calls.collect();
    Ok((TraceReport { process, calls }, rejected))
}

fn read_call(call: v1::ReportedTraceCall) -> Result<ReportedCall, InvalidRequest> {
    let v1::ReportedTraceCall { number, issuer, subject, trace_id, start_time, call_json } = call;
    if number == 0 || i64::try_from(number).is_err() {
        return Err(field("calls.number", &"a number from 1 to 2^63 - 1 is required"));
    }
    let start_time = start_time.ok_or(InvalidRequest::Missing("calls.start_time"))?;
    let bytes = call_json.len();
    if bytes > CALL_BYTES {
        let (field, limit) = ("calls.call_json", CALL_BYTES);
        return Err(InvalidRequest::TooLong { field, bytes, limit });
    }
    serde_json::from_str::<Map<String, Value>>(&call_json)
        .map_err(|e| field("calls.call_json", &e))?;
    Ok(ReportedCall {
        number,
        account: Account {
            issuer: required("calls.issuer", issuer, TEXT_BYTES)?,
            subject: required("calls.subject", subject, TEXT_BYTES)?,
            person: None,
        },
        trace_id: required("calls.trace_id", trace_id, TRACE_ID_BYTES)?,
        started: convert::read_timestamp(start_time).map_err(|e| field("calls.start_time", &e))?,
        call: call_json,
    })
}

fn read_wanted(request: &v1::ListTraceCallsRequest) -> Result<TraceWanted, InvalidRequest> {
    let v1::ListTraceCallsRequest { trace_id, issuer, subject, .. } = request;
    let trace_id = required("trace_id", trace_id.clone(), TRACE_ID_BYTES)?;
    let account = match (issuer.as_str(), subject.as_str()) {
        ("", "") => None,
        _ => Some(Account {
            issuer: required("issuer", issuer.clone(), TEXT_BYTES)?,
            subject: required("subject", subject.clone(), TEXT_BYTES)?,
            person: None,
        }),
    };
    Ok(TraceWanted { trace_id, account })
}

fn required(field: &'static str, text: String, limit: usize) -> Result<String, InvalidRequest> {
    if text.is_empty() {
        return Err(InvalidRequest::Missing(field));
    }
    invalid::line(field, text, limit)
}

fn encode(call: StoredCall) -> v1::TraceCall {
    let StoredCall { at, gateway, process, number, account, call } = call;
    v1::TraceCall {
        gateway,
        process,
        number,
        issuer: account.issuer,
        subject: account.subject,
        start_time: Some(convert::timestamp(at.started)),
        call_json: call,
    }
}
