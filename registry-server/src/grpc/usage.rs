//! `UsageService`: reports of gateways, and queries of operators.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use registry_core::Timestamp;
use registry_proto::{
    convert::{self, ReceivedUsage},
    v1::{self, usage_service_server::UsageService},
};
use tonic::{Request, Response, Status};

use super::{
    Service, access,
    deadline::begin_write,
    invalid::{self, FILTER_BYTES, InvalidRequest, field},
    ledger::reported_gateway,
};
use crate::{
    app::page::Page,
    metrics,
    store::{UsageGroup, UsageGroupKey, UsageInterval, UsageProperty, UsageQuery},
};

#[tonic::async_trait]
impl UsageService for Service {
    async fn report_usage(
        &self,
        mut request: Request<v1::ReportUsageRequest>,
    ) -> Result<Response<v1::ReportUsageResponse>, Status> {
        let caller = access::principal(&request)?;
        let gateway = reported_gateway(&caller, mem::take(&mut request.get_mut().gateway))?;
        begin_write(&request);
        let received = convert::read_usage_report(request.into_inner());
        let ReceivedUsage { report, rejected } = received.map_err(InvalidRequest::from)?;
        metrics::usage_rejected(rejected.len());
        if let Some(problem) = rejected.first() {
            let rows = rejected.len();
            tracing::warn!(%gateway, rows, %problem, "rejected rows of usage; update the gateway");
        }
        self.app.ledger.report_usage(&gateway, &report).await?;
        Ok(Response::new(v1::ReportUsageResponse {}))
    }

    async fn query_usage(
        &self,
        request: Request<v1::QueryUsageRequest>,
    ) -> Result<Response<v1::QueryUsageResponse>, Status> {
        let (ledger, by) = (self.ledger()?, access::principal(&request)?);
        let mut request = request.into_inner();
        let page = page_request!("QueryUsage", request);
        let query = read_query(request)?;
        let has_interval = query.interval.is_some();
        let Page { items, next_page_token } = ledger.query_usage(&by, query, &page).await?;
        Ok(Response::new(v1::QueryUsageResponse {
            usage: items.into_iter().map(|group| encode(group, has_interval)).collect(),
            next_page_token,
            currency: ledger.currency().to_owned(),
        }))
    }
}

fn read_query(request: v1::QueryUsageRequest) -> Result<UsageQuery, InvalidRequest> {
    let v1::QueryUsageRequest {
        group_by,
        interval,
        start_time,
        end_time,
        gateway,
        agent,
        team,
        principal,
        tool,
        verdict,
        ..
    } = request;
    let group_by = invalid::list("group_by", group_by, UsageProperty::ALL.len())?;
    let mut filters = BTreeMap::new();
    for (property, name, value) in [
        (UsageProperty::Gateway, "gateway", gateway),
        (UsageProperty::Agent, "agent", agent),
        (UsageProperty::Team, "team", team),
        (UsageProperty::Principal, "principal", principal),
        (UsageProperty::Tool, "tool", tool),
        (UsageProperty::Verdict, "verdict", verdict),
    ] {
        let value = invalid::line(name, value, FILTER_BYTES)?;
        if !value.is_empty() {
            filters.insert(property, value);
        }
    }
    let start = read_time("start_time", start_time)?;
    let end = read_time("end_time", end_time)?;
    if let (Some(start), Some(end)) = (start, end)
        && start >= end
    {
        return Err(field("end_time", &format!("{end} is not after start_time, {start}")));
    }
    Ok(UsageQuery {
        group_by: group_by.into_iter().map(read_property).collect::<Result<BTreeSet<_>, _>>()?,
        interval: read_interval(interval)?,
        start,
        end,
        filters,
        ..Default::default()
    })
}

fn read_time(
    name: &'static str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, InvalidRequest> {
    time.map(convert::read_timestamp).transpose().map_err(|e| field(name, &e))
}

fn read_property(number: i32) -> Result<UsageProperty, InvalidRequest> {
    match v1::UsageProperty::try_from(number) {
        Ok(v1::UsageProperty::Gateway) => Ok(UsageProperty::Gateway),
        Ok(v1::UsageProperty::Agent) => Ok(UsageProperty::Agent),
        Ok(v1::UsageProperty::Team) => Ok(UsageProperty::Team),
        Ok(v1::UsageProperty::Principal) => Ok(UsageProperty::Principal),
        Ok(v1::UsageProperty::Tool) => Ok(UsageProperty::Tool),
        Ok(v1::UsageProperty::Verdict) => Ok(UsageProperty::Verdict),
        Ok(v1::UsageProperty::Unspecified) | Err(_) => {
            Err(field("group_by", &format!("{number} is not a known property")))
        }
    }
}

fn read_interval(number: i32) -> Result<Option<UsageInterval>, InvalidRequest> {
    match v1::UsageInterval::try_from(number) {
        Ok(v1::UsageInterval::Unspecified) => Ok(None),
        Ok(v1::UsageInterval::Minute) => Ok(Some(UsageInterval::Minute)),
        Ok(v1::UsageInterval::Hour) => Ok(Some(UsageInterval::Hour)),
        Ok(v1::UsageInterval::Day) => Ok(Some(UsageInterval::Day)),
        Err(_) => Err(field("interval", &format!("{number} is not a known interval"))),
    }
}

fn encode(group: UsageGroup, has_interval: bool) -> v1::Usage {
    let UsageGroup { key, totals } = group;
    let start_time = has_interval.then(|| convert::timestamp(key.start()));
    let UsageGroupKey { minute: _, gateway, agent, team, principal, tool, verdict } = key;
    v1::Usage {
        start_time,
        gateway,
        agent,
        team,
        principal,
        tool,
        verdict,
        call_count: totals.calls,
        cost: totals.cost.to_string(),
        duration: Some(convert::duration(totals.duration)),
        request_bytes: totals.request_bytes,
        response_bytes: totals.response_bytes,
        finding_count: totals.findings,
    }
}
