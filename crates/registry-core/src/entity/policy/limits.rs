//! Rates, and limits on traces.

use std::time::Duration;

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::Value;

use super::{amount, choice, iso_duration};
use crate::{
    amount::Amount,
    decode::{Fields, Problems},
    duration,
    limits::{RATE_LIMIT, TRACE_LIMIT},
};

/// A maximum rate of calls. The calls that agree in all of `per` share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Rate {
    /// The properties that separate the counts of calls. Empty: one count for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per: Vec<RateKey>,
    /// Maximum number of calls in a window.
    pub limit: u32,
    /// The window.
    #[serde(serialize_with = "duration::serialize_iso")]
    pub window: Duration,
    /// Maximum number of calls at once. `None`: the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The gateways whose calls share the rate.
    #[serde(skip_serializing_if = "Reach::is_gateway")]
    pub reach: Reach,
}

/// The gateways whose calls share a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// One gateway.
    #[default]
    Gateway,
    /// All gateways of the registry.
    Fleet,
}

/// A property that separates the counts of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RateKey {
    /// The agent, else the owner of the credential.
    Caller,
    /// The agent.
    Agent,
    /// The owner of the credential.
    Principal,
    /// The upstream tool behind the called one, or the called composition.
    Tool,
}

impl RateKey {
    const ALL: [Self; 4] = [Self::Caller, Self::Agent, Self::Principal, Self::Tool];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Agent => "agent",
            Self::Principal => "principal",
            Self::Tool => "tool",
        }
    }
}

impl Reach {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_gateway(&self) -> bool {
        *self == Self::Gateway
    }

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Fleet => "fleet",
        }
    }
}

/// Limits on related calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Limits on the calls of one trace. They stop accidental loops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceLimits>,
}

/// Limits on the calls of one trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TraceLimits {
    /// Maximum number of calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// Maximum depth of calls that cause each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Maximum cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
}

impl Rate {
    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let mut per = fields.list("per", |value, at| {
            let key = RateKey::ALL.into_iter().find(|key| value.as_str() == Some(key.as_str()));
            if key.is_none() {
                problems.wrong_type(value, at, "\"caller\", \"agent\", \"principal\" or \"tool\"");
            }
            key
        });
        per.sort_unstable();
        per.dedup();
        fields.require("limit");
        fields.require("window");
        let limit = count(&fields, "limit", RATE_LIMIT);
        let window = iso_duration(&fields, "window");
        let burst = count(&fields, "burst", RATE_LIMIT);
        let reach = choice(&fields, "reach", &[Reach::Gateway, Reach::Fleet], Reach::as_str);
        fields.finish();
        let reach = reach.unwrap_or_default();
        Some(Self { per, limit: limit?, window: window?, burst, reach })
    }
}

impl Limits {
    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let trace = fields.get("trace").and_then(|value| {
            let fields = problems.object(value, fields.at("trace"))?;
            let limits = TraceLimits {
                calls: count(&fields, "calls", TRACE_LIMIT),
                hops: count(&fields, "hops", TRACE_LIMIT),
                cost: amount(&fields, "cost"),
            };
            fields.finish();
            Some(limits)
        });
        fields.finish();
        Some(Self { trace })
    }
}

/// Reads an optional whole number from 0 to `most`.
fn count(fields: &Fields<'_>, name: &'static str, most: u32) -> Option<u32> {
    let value = fields.get(name)?;
    let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= most);
    if number.is_none() {
        let here = fields.here();
        fields.problems().wrong_type(
            value,
            here.member(name),
            &format!("a whole number from 0 to {most}"),
        );
    }
    number
}
