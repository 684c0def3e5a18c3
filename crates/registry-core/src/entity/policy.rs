//! Policies: selectors of calls, and requirements for them.
//!
//! The version in force is the highest that is not a pre-release.

mod approval;
mod budget;
mod inspection;
mod limits;
mod price;
mod selector;

use std::time::Duration;

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Map, Value};

pub use approval::{Approval, ApprovalCondition, Approver, InvalidApprover, MAX_QUORUM};
pub use budget::{Budget, BudgetScope, BudgetWindow, CalendarPeriod, Fraction, OnUnavailable};
pub use inspection::{
    BinaryContent, DataClass, Inspection, InspectionAction, InspectionException, InspectionProfile,
    UnknownDataClass,
};
pub use limits::{Limits, Rate, RateKey, Reach, TraceLimits};
pub use price::{CallPrice, FailureCharge, Price, ResultPath};
pub use selector::{AppliesTo, CallerPattern, Pattern};

use crate::{
    amount::Amount,
    decode::{Fields, Problems},
    duration,
    kind::Kind,
    limits::CEDAR_BYTES,
    name::Name,
    open_json,
    version::Version,
};

/// A registered policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The name.
    pub name: Name,
    /// The exact version.
    pub version: Version,
    /// The description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The selected calls.
    #[serde(skip_serializing_if = "AppliesTo::is_everything")]
    pub applies_to: AppliesTo,
    /// Whether the policy rejects calls.
    #[serde(skip_serializing_if = "Mode::is_enforce")]
    pub mode: Mode,
    /// The decision about calls that no `permit` of the policy allows.
    #[serde(skip_serializing_if = "Decision::is_allow")]
    pub default: Decision,
    /// The conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// The price of the selected calls. The highest price of all policies that select a call applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Limits on spending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// Maximum rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rate>,
    /// Maximum sizes of one trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// The actions on credentials and personal data in arguments and results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
    /// The approval that the selected calls need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Maximum age of the catalog that decides about a selected call.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "duration::serialize_optional_iso"
    )]
    pub max_staleness: Option<Duration>,
    /// Open metadata: owner, repository …
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub metadata: Option<Map<String, Value>>,
}

/// Whether a policy rejects calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Violations are rejected.
    #[default]
    Enforce,
    /// Violations are counted and recorded only.
    Audit,
}

/// The decision about calls that no statement of a policy decides, or that have no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call is allowed.
    #[default]
    Allow,
    /// The call is denied.
    Deny,
}

/// Conditions in Cedar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Authorization {
    /// The `permit` and `forbid` statements.
    pub cedar: String,
}

impl Mode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_enforce(&self) -> bool {
        matches!(self, Self::Enforce)
    }

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
        }
    }
}

impl Decision {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_allow(&self) -> bool {
        *self == Self::Allow
    }

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl Policy {
    /// The mode of the evaluation by gateways: audit for a pre-release.
    pub fn effective_mode(&self) -> Mode {
        if self.version.is_prerelease() { Mode::Audit } else { self.mode }
    }

    /// Whether it prices calls or limits their spending.
    pub fn concerns_spending(&self) -> bool {
        self.price.is_some() || !self.budgets.is_empty()
    }

    pub(crate) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.object(value, at)?;
        let (name, version) = (fields.name(Kind::Policy, "name"), fields.version("version"));
        let description = fields.optional_string("description");
        let applies_to = fields
            .get("appliesTo")
            .and_then(|value| AppliesTo::read(problems, value, fields.at("appliesTo")))
            .unwrap_or_default();
        let mode = choice(&fields, "mode", &[Mode::Enforce, Mode::Audit], Mode::as_str);
        let default =
            choice(&fields, "default", &[Decision::Allow, Decision::Deny], Decision::as_str);
        let authorization = fields
            .get("authorization")
            .and_then(|value| Authorization::read(problems, value, fields.at("authorization")));
        let price =
            fields.get("price").and_then(|value| Price::read(problems, value, fields.at("price")));
        let budgets = Budget::read_list(&fields);
        let rates = fields.list("rates", |value, at| Rate::read(problems, value, at));
        let limits = fields
            .get("limits")
            .and_then(|value| Limits::read(problems, value, fields.at("limits")));
        let inspection = fields
            .get("inspection")
            .and_then(|value| Inspection::read(problems, value, fields.at("inspection")));
        let approval = fields
            .get("approval")
            .and_then(|value| Approval::read(problems, value, fields.at("approval")));
        let max_staleness = iso_duration(&fields, "maxStaleness");
        let metadata = fields.open_object("metadata");
        fields.finish();
        Some(Self {
            name: name?,
            version: version?,
            description,
            applies_to,
            mode: mode.unwrap_or_default(),
            default: default.unwrap_or_default(),
            authorization,
            price,
            budgets,
            rates,
            limits,
            inspection,
            approval,
            max_staleness,
            metadata,
        })
    }
}

impl Authorization {
    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let cedar = fields.require("cedar").and_then(|value| {
            let Value::String(text) = value else {
                problems.wrong_type(value, fields.at("cedar"), "a string");
                return None;
            };
            if text.len() > CEDAR_BYTES {
                let message =
                    format!("the text has {} bytes; the maximum is {CEDAR_BYTES}", text.len());
                problems.invalid(fields.at("cedar"), message, "split the policy");
                return None;
            }
            Some(text.clone())
        });
        fields.finish();
        Some(Self { cedar: cedar? })
    }
}

/// Reads an optional member that names one of `choices`.
fn choice<T: Copy>(
    fields: &Fields<'_>,
    name: &'static str,
    choices: &[T],
    text: fn(T) -> &'static str,
) -> Option<T> {
    let value = fields.get(name)?;
    let found = choices.iter().copied().find(|choice| value.as_str() == Some(text(*choice)));
    if found.is_none() {
        let names: Vec<_> = choices.iter().map(|choice| format!("\"{}\"", text(*choice))).collect();
        let here = fields.here();
        fields.problems().wrong_type(value, here.member(name), &names.join(" or "));
    }
    found
}

/// Reads an optional amount that is not negative.
fn amount(fields: &Fields<'_>, name: &'static str) -> Option<Amount> {
    let here = fields.here();
    let (value, at) = (fields.get(name)?, here.member(name));
    let Value::String(text) = value else {
        let expected = "an amount as a string such as \"0.015\"";
        fields.problems().wrong_type(value, at, expected);
        return None;
    };
    match Amount::parse_non_negative(text) {
        Ok(amount) => Some(amount),
        Err(e) => {
            fields.problems().invalid(at, e.to_string(), "write an amount such as \"0.015\"");
            None
        }
    }
}

/// Reads an optional positive duration in ISO 8601 notation.
fn iso_duration(fields: &Fields<'_>, name: &'static str) -> Option<Duration> {
    let here = fields.here();
    let at = here.member(name);
    let text = fields.problems().string(fields.get(name)?, at)?;
    match duration::parse_iso_duration(text) {
        Ok(duration) => Some(duration),
        Err(e) => {
            fields.problems().invalid(at, e.to_string(), "write a duration such as PT30S or P1D");
            None
        }
    }
}

/// Reads a JSON pointer into the arguments, below their root.
fn argument_pointer(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Box<str>> {
    let text = problems.string(value, at)?;
    let is_escape = |rest: &str| rest.starts_with(['0', '1']);
    let is_pointer = text.starts_with('/') && text.split('~').skip(1).all(is_escape);
    if !is_pointer {
        let message = format!("`{}` is not a JSON pointer", text.escape_debug());
        let help = "write a pointer into the arguments such as /card/number";
        problems.invalid(at, message, help);
    }
    is_pointer.then(|| text.into())
}

#[cfg(test)]
mod tests;
