//! Reads policies.

mod approval;
mod inspection;
mod spending;

use std::time::Duration;

use registry_core::{
    duration::format_iso_duration,
    entity::policy::{Decision, Mode, RateKey, Reach},
};
use serde_json::Value;

pub use self::approval::{InvalidApproval, policy_approval};
use super::{Texts, list, object};
use crate::v1;

pub(super) fn value(texts: &Texts, policy: v1::Policy) -> Value {
    let v1::Policy {
        name,
        version,
        description,
        applies_to,
        mode,
        default,
        authorization,
        rates,
        limits,
        max_staleness,
        metadata,
        price,
        budgets,
        inspection,
        approval,
    } = policy;
    let cedar = |v1::PolicyAuthorization { cedar }| object([("cedar", cedar.into())]);
    object([
        ("name", name.into()),
        ("version", version.into()),
        ("description", description.into()),
        ("appliesTo", applies_to.map(selector_value).into()),
        ("mode", mode_value(mode)),
        ("default", decision_value(default)),
        ("authorization", authorization.map(cedar).into()),
        ("price", price.map(spending::price_value).into()),
        ("budgets", list(budgets, spending::budget_value)),
        ("rates", list(rates, rate_value)),
        ("limits", limits.map(limits_value).into()),
        ("inspection", inspection.map(inspection::inspection_value).into()),
        ("approval", approval.map(approval::approval_value).into()),
        ("maxStaleness", max_staleness.map(duration_value).into()),
        ("metadata", texts.optional(metadata, format_args!("/metadata"))),
    ])
}

fn selector_value(selector: v1::PolicySelector) -> Value {
    let v1::PolicySelector { callers, tools, skills, servers, destructive } = selector;
    // A message does not distinguish an empty list from an absent one. The former is invalid.
    let patterns = |list: Vec<String>| Some(list).filter(|list| !list.is_empty()).into();
    object([
        ("callers", patterns(callers)),
        ("tools", patterns(tools)),
        ("skills", patterns(skills)),
        ("servers", patterns(servers)),
        ("destructive", destructive.into()),
    ])
}

// The reader of documents rejects the text of an unknown number.

fn mode_value(number: i32) -> Value {
    match v1::PolicyMode::try_from(number) {
        Ok(v1::PolicyMode::Unspecified) => Value::Null,
        Ok(v1::PolicyMode::Enforce) => Mode::Enforce.as_str().into(),
        Ok(v1::PolicyMode::Audit) => Mode::Audit.as_str().into(),
        Err(_) => number.to_string().into(),
    }
}

fn decision_value(number: i32) -> Value {
    match v1::PolicyDecision::try_from(number) {
        Ok(v1::PolicyDecision::Unspecified) => Value::Null,
        Ok(v1::PolicyDecision::Allow) => Decision::Allow.as_str().into(),
        Ok(v1::PolicyDecision::Deny) => Decision::Deny.as_str().into(),
        Err(_) => number.to_string().into(),
    }
}

fn rate_key_value(number: i32) -> Value {
    match v1::PolicyRateKey::try_from(number) {
        Ok(v1::PolicyRateKey::Caller) => RateKey::Caller.as_str().into(),
        Ok(v1::PolicyRateKey::Agent) => RateKey::Agent.as_str().into(),
        Ok(v1::PolicyRateKey::Principal) => RateKey::Principal.as_str().into(),
        Ok(v1::PolicyRateKey::Tool) => RateKey::Tool.as_str().into(),
        Ok(v1::PolicyRateKey::Unspecified) | Err(_) => number.to_string().into(),
    }
}

fn reach_value(number: i32) -> Value {
    match v1::PolicyRateReach::try_from(number) {
        Ok(v1::PolicyRateReach::Unspecified) => Value::Null,
        Ok(v1::PolicyRateReach::Gateway) => Reach::Gateway.as_str().into(),
        Ok(v1::PolicyRateReach::Fleet) => Reach::Fleet.as_str().into(),
        Err(_) => number.to_string().into(),
    }
}

fn rate_value(rate: v1::PolicyRate) -> Value {
    let v1::PolicyRate { per, limit, window, burst, reach } = rate;
    object([
        ("per", list(per, rate_key_value)),
        ("limit", limit.into()),
        ("window", window.map(duration_value).into()),
        ("burst", burst.into()),
        ("reach", reach_value(reach)),
    ])
}

fn limits_value(v1::PolicyLimits { trace }: v1::PolicyLimits) -> Value {
    let trace = trace.map(|v1::PolicyTraceLimits { calls, hops, cost }| {
        object([("calls", calls.into()), ("hops", hops.into()), ("cost", cost.into())])
    });
    object([("trace", trace.into())])
}

/// The ISO 8601 text of a positive duration in whole seconds. The reader of documents rejects the
/// text of any other duration.
fn duration_value(duration: prost_types::Duration) -> Value {
    let prost_types::Duration { seconds, nanos } = duration;
    match u64::try_from(seconds) {
        Ok(seconds @ 1..) if nanos == 0 => format_iso_duration(Duration::from_secs(seconds)).into(),
        _ => format!("PT{seconds}.{nanos:09}S").into(),
    }
}
