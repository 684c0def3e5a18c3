//! Budgets: limits on the spending of calls.

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::tz::{TimeZone, TimeZoneDatabase};
use schema_compat::pointer::Location;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Decision, amount, choice};
use crate::{
    amount::Amount,
    decode::{Fields, Problems, describe},
    duration::{format_iso_duration, parse_iso_duration},
    kind::Kind,
    limits::{BUDGET_ALERTS, BUDGETS},
    name::Name,
    timestamp::Timestamp,
};

/// A limit on the spending of calls. New versions of a policy keep the spending of the budgets with
/// the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The name, unique in the policy.
    pub name: Name,
    /// The calls that share the limit.
    pub per: BudgetScope,
    /// Maximum spending in a window.
    pub limit: Amount,
    /// The periods whose spending is limited.
    #[serde(flatten)]
    pub window: BudgetWindow,
    /// The decision about calls without a price.
    #[serde(skip_serializing_if = "Decision::is_allow")]
    pub unpriced: Decision,
    /// The decision about calls while a gateway cannot reach the ledger.
    #[serde(skip_serializing_if = "OnUnavailable::is_deny")]
    pub on_unavailable: OnUnavailable,
    /// The fractions of the limit whose spending raises an alert, in ascending order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alert_at: Vec<Fraction>,
}

/// The calls that share the limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetScope {
    /// The calls of one agent.
    Agent,
    /// The calls of the agents that one team owns.
    Team,
    /// The calls with credentials of one owner.
    Principal,
    /// The calls of one tool.
    Tool,
    /// All calls.
    Fleet,
}

/// The periods whose spending a budget limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetWindow {
    /// One period without an end.
    Total,
    /// Periods of the calendar.
    Calendar {
        /// The length.
        period: CalendarPeriod,
        /// The IANA name of its time zone.
        time_zone: Box<str>,
    },
    /// Periods of a fixed length.
    Fixed {
        /// The length.
        length: Duration,
        /// The start of one of the periods.
        anchor: Timestamp,
    },
}

/// A period of the calendar. It starts at midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarPeriod {
    /// A day.
    Day,
    /// A week, which starts on Monday.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// The decision about calls while a gateway cannot reach the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnavailable {
    /// Calls are denied when the gateway has spent its grants.
    #[default]
    Deny,
    /// Each gateway may spend this amount in a window beyond its grants.
    Allow(Amount),
}

impl OnUnavailable {
    /// The amount that each gateway may spend in a window beyond its grants.
    pub fn allowance(self) -> Amount {
        match self {
            Self::Deny => Amount::ZERO,
            Self::Allow(allowance) => allowance,
        }
    }
}

/// A fraction from 0.0001 to 1000, in ten-thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(u32);

/// The default time zone.
const UTC: &str = "UTC";

impl Budget {
    /// Reads the list `budgets`.
    pub(super) fn read_list(fields: &Fields<'_>) -> Vec<Self> {
        if is_too_long(fields, "budgets", BUDGETS) {
            return Vec::new();
        }
        let problems = fields.problems();
        let mut names = BTreeSet::new();
        fields.list("budgets", |value, at| {
            let budget = Self::read(problems, value, at)?;
            if !names.insert(budget.name.clone()) {
                let message = format!("two budgets have the name `{}`", budget.name);
                problems.invalid(at.member("name"), message, "rename one of them");
            }
            Some(budget)
        })
    }

    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let name = fields.name(Kind::Policy, "name");
        fields.require("per");
        let per = choice(&fields, "per", &BudgetScope::ALL, BudgetScope::as_str);
        fields.require("limit");
        let limit = amount(&fields, "limit");
        let window = BudgetWindow::read(&fields);
        let decisions = [Decision::Allow, Decision::Deny];
        let unpriced = choice(&fields, "unpriced", &decisions, Decision::as_str);
        let on_unavailable = OnUnavailable::read(&fields);
        let alert_at = Fraction::read_list(&fields, "alertAt");
        fields.finish();
        Some(Self {
            name: name?,
            per: per?,
            limit: limit?,
            window: window?,
            unpriced: unpriced.unwrap_or_default(),
            on_unavailable: on_unavailable.unwrap_or_default(),
            alert_at,
        })
    }
}

/// Reports a list with more than `most` items.
fn is_too_long(fields: &Fields<'_>, name: &'static str, most: usize) -> bool {
    let length = fields.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let help = "remove items, or split the policy";
    fields.problems().is_too_long(length, most, fields.at(name), help)
}

impl BudgetScope {
    const ALL: [Self; 5] = [Self::Agent, Self::Team, Self::Principal, Self::Tool, Self::Fleet];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Team => "team",
            Self::Principal => "principal",
            Self::Tool => "tool",
            Self::Fleet => "fleet",
        }
    }
}

impl CalendarPeriod {
    const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl BudgetWindow {
    /// The time zone, unless the window has none or it is UTC.
    pub fn time_zone(&self) -> Option<&str> {
        match self {
            Self::Calendar { time_zone, .. } => Some(&**time_zone).filter(|zone| *zone != UTC),
            Self::Total | Self::Fixed { .. } => None,
        }
    }

    /// The anchor, unless the window has none or it is 1970-01-01T00:00:00Z.
    pub fn anchor(&self) -> Option<Timestamp> {
        match self {
            Self::Fixed { anchor, .. } => Some(*anchor).filter(|at| *at != Timestamp::EPOCH),
            Self::Total | Self::Calendar { .. } => None,
        }
    }

    /// Reads `window`, `timeZone` and `anchor`.
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let (problems, here) = (fields.problems(), fields.here());
        let (zone, anchor) = (fields.get("timeZone"), fields.get("anchor"));
        let value = fields.require("window")?;
        let text = problems.string(value, here.member("window"))?;
        let period = CalendarPeriod::ALL.into_iter().find(|period| period.as_str() == text);
        let length = match text {
            // Hours of a time zone would repeat when its clocks are set back.
            "hour" => Some(Duration::from_hours(1)),
            _ => parse_iso_duration(text).ok(),
        };
        if period.is_none() && length.is_none() && text != "total" {
            let expected = "\"total\", \"hour\", \"day\", \"week\", \"month\", \"year\" or a \
                            duration such as \"P14D\"";
            problems.wrong_type(value, here.member("window"), expected);
            return None;
        }
        if zone.is_some() && period.is_none() {
            let help =
                "remove `timeZone`, or write the window \"day\", \"week\", \"month\" or \"year\"";
            let message = format!("the window {text:?} has no time zone");
            problems.invalid(here.member("timeZone"), message, help);
        }
        if anchor.is_some() && length.is_none() {
            let help = "remove `anchor`, or write the window as a duration such as \"P14D\"";
            let message = format!("the window {text:?} has no anchor");
            problems.invalid(here.member("anchor"), message, help);
        }
        if let Some(period) = period {
            let time_zone = match zone {
                Some(zone) => time_zone(problems, zone, here.member("timeZone"))?,
                None => UTC.into(),
            };
            return Some(Self::Calendar { period, time_zone });
        }
        let Some(length) = length else { return Some(Self::Total) };
        let anchor = match anchor {
            Some(value) => instant(problems, value, here.member("anchor"))?,
            None => Timestamp::EPOCH,
        };
        Some(Self::Fixed { length, anchor })
    }
}

/// Reads the name of a time zone. The database is that of the program, so that all programs of one
/// version agree.
fn time_zone(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Box<str>> {
    let text = problems.string(value, at)?;
    let found = TimeZoneDatabase::bundled().get(text).ok();
    match found.as_ref().and_then(TimeZone::iana_name) {
        Some(name) if name == text => Some(name.into()),
        Some(name) => {
            let message = format!("the time zone {text:?} has the name {name:?}");
            problems.invalid(at, message, format!("write {name:?}"));
            None
        }
        None => {
            let message = format!("{} is not the name of a time zone", describe(value));
            let help = "write an IANA name such as \"UTC\" or \"Europe/Berlin\"";
            problems.invalid(at, message, help);
            None
        }
    }
}

fn instant(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Timestamp> {
    match Timestamp::parse(problems.string(value, at)?) {
        Ok(instant) => Some(instant),
        Err(e) => {
            problems.invalid(at, e.to_string(), "write a time such as \"2026-01-31T12:00:00Z\"");
            None
        }
    }
}

/// Formats the member `window`.
impl fmt::Display for BudgetWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total => f.write_str("total"),
            Self::Calendar { period, .. } => f.write_str(period.as_str()),
            Self::Fixed { length, .. } => f.write_str(&format_iso_duration(*length)),
        }
    }
}

/// Writes the members `window`, `timeZone` and `anchor`.
impl Serialize for BudgetWindow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a> {
            window: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            time_zone: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            anchor: Option<Timestamp>,
        }
        let (time_zone, anchor) = (self.time_zone(), self.anchor());
        Members { window: self.to_string(), time_zone, anchor }.serialize(serializer)
    }
}

impl OnUnavailable {
    fn is_deny(&self) -> bool {
        *self == Self::Deny
    }

    fn read(fields: &Fields<'_>) -> Option<Self> {
        let (problems, here) = (fields.problems(), fields.here());
        let value = fields.get("onUnavailable")?;
        let at = here.member("onUnavailable");
        match value {
            Value::String(text) if text == "deny" => Some(Self::Deny),
            Value::Object(_) => {
                let fields = problems.object(value, at)?;
                fields.require("allow");
                let allowance = amount(&fields, "allow");
                fields.finish();
                allowance.map(Self::Allow)
            }
            _ => {
                let expected = "\"deny\" or an amount such as {\"allow\": \"5.00\"}";
                problems.wrong_type(value, at, expected);
                None
            }
        }
    }
}

impl Fraction {
    /// The whole.
    pub const ONE: Self = Self(10_000);
    const LARGEST: Self = Self(1_000 * Self::ONE.0);
    /// Micro-units in a ten-thousandth.
    const MICROS: i64 = 100;

    /// Converts ten-thousandths, such as those in a database.
    pub fn from_ten_thousandths(parts: u32) -> Self {
        Self(parts)
    }

    /// The fraction in ten-thousandths.
    pub fn ten_thousandths(self) -> u32 {
        self.0
    }

    fn read_list(fields: &Fields<'_>, name: &'static str) -> Vec<Self> {
        if is_too_long(fields, name, BUDGET_ALERTS) {
            return Vec::new();
        }
        let problems = fields.problems();
        let mut list = fields.list(name, |value, at| {
            let fraction = Self::parse(value);
            if fraction.is_none() {
                let expected = "a number from 0.0001 to 1000 with at most four decimals";
                problems.wrong_type(value, at, expected);
            }
            fraction
        });
        list.sort_unstable();
        list.dedup();
        list
    }

    fn parse(value: &Value) -> Option<Self> {
        // The shortest text of a number avoids floating-point arithmetic.
        let micros = Amount::parse(&value.as_number()?.to_string()).ok()?.as_micros();
        let parts = u32::try_from(micros / Self::MICROS).ok().map(Self)?;
        let is_valid = micros % Self::MICROS == 0 && parts.0 > 0 && parts <= Self::LARGEST;
        is_valid.then_some(parts)
    }
}

/// Converts to the nearest number.
impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> Self {
        Self::from(fraction.0) / Self::from(Fraction::ONE.0)
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(Self::ONE.0) {
            serializer.serialize_u32(self.0 / Self::ONE.0)
        } else {
            serializer.serialize_f64((*self).into())
        }
    }
}
