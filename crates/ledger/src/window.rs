//! The windows of budgets: the whole life of a budget, calendar periods in a time zone, and periods
//! of a fixed length.
//!
//! Only the ledger computes windows. Time zones come from the database in the program, so that all
//! servers of one version agree on the limits of a window.

use std::{fmt, sync::Arc, time::Duration};

use jiff::{
    Span, civil,
    tz::{TimeZone, TimeZoneDatabase},
};
use registry_core::{Timestamp, duration::parse_iso_duration, visible::escape_invisible};
use serde::{Deserialize, Serialize};

/// How long before its start the accounts of a window may be opened.
pub const OPENS_BEFORE: Duration = Duration::from_mins(1);
/// How long the accounts of a window that is over are kept, for late reports.
pub(crate) const KEPT_FOR: Duration = Duration::from_hours(24);

/// The identity of a window within its budget: `total`, `2026-11`, `2026-W48`, `2026-11-26`, or the
/// start of a period of fixed length. It depends on neither the time zone database nor the version of
/// the policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WindowId(Arc<str>);

impl WindowId {
    /// Wraps an id from a store or a message; the format is not checked.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WindowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A period with its own limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The identity.
    pub id: WindowId,
    /// The first instant; `None` for the window `total`.
    pub start: Option<Timestamp>,
    /// The first instant after the window; `None` for the window `total`.
    pub end: Option<Timestamp>,
}

impl Window {
    /// Whether an instant is in the window.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= at) && self.end.is_none_or(|end| at < end)
    }
}

/// The position of a window relative to the time of the ledger. Gateways have other clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSpan {
    /// The identity.
    pub id: WindowId,
    /// The time until the window starts. Zero: it has started.
    pub starts_in: Duration,
    /// The time until the window ends; `None`: it has no end.
    pub ends_in: Option<Duration>,
    /// The next window, once its accounts may be opened.
    pub next: Option<WindowId>,
}

/// The windows whose accounts may be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWindows {
    /// The window that contains the time of the ledger.
    pub current: Window,
    /// The next window, if it starts soon.
    pub next: Option<Window>,
}

impl OpenWindows {
    /// The window with an id, or the current one.
    pub fn find(&self, id: Option<&WindowId>) -> Option<&Window> {
        let Some(id) = id else { return Some(&self.current) };
        [Some(&self.current), self.next.as_ref()].into_iter().flatten().find(|w| w.id == *id)
    }

    /// The position of one of the windows.
    pub fn span(&self, window: &Window, now: Timestamp) -> WindowSpan {
        let is_current = window.id == self.current.id;
        let next = self.next.as_ref().filter(|_| is_current);
        WindowSpan {
            id: window.id.clone(),
            starts_in: window.start.map_or(Duration::ZERO, |start| start.since(now)),
            ends_in: window.end.map(|end| end.since(now)),
            next: next.map(|next| next.id.clone()),
        }
    }
}

/// A period of the calendar. It starts at midnight in the time zone of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A day, which has 23 or 25 hours when the clocks change.
    Day,
    /// A week of ISO 8601, which starts on Monday.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// The rule that divides time into windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowRule {
    /// One window without an end.
    Total,
    /// Periods of the calendar.
    Calendar {
        /// The period.
        period: Period,
        /// The time zone of its midnight.
        time_zone: TimeZone,
    },
    /// Periods of a fixed length.
    Fixed {
        /// The length. It has whole milliseconds and is not zero.
        length: Duration,
        /// The start of one of the periods.
        anchor: Timestamp,
    },
}

/// A rule for windows is invalid, or an instant has no window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The text of the rule is unknown.
    #[error(
        "`{0}` is not a window; write total, day, week, month, year or a duration such as PT1H"
    )]
    Rule(String),
    /// The time zone is unknown.
    #[error(
        "`{0}` is not a time zone; write a name of the IANA database such as Europe/Berlin or UTC"
    )]
    TimeZone(String),
    /// A time zone without a calendar period.
    #[error("a time zone applies to the windows day, week, month and year only; remove timeZone")]
    TimeZoneUnused,
    /// An anchor without a duration.
    #[error("an anchor applies to windows with a duration only; remove anchor")]
    AnchorUnused,
    /// The instant is outside of the supported years.
    #[error("{0} has no window; windows exist from the year 1 to 9998")]
    OutOfRange(Timestamp),
}

impl WindowRule {
    /// Parses `total`, `day`, `week`, `month`, `year` or a duration of ISO 8601 in days, hours,
    /// minutes and seconds. The time zone defaults to UTC, the anchor to 1970-01-01T00:00:00Z.
    pub fn parse(
        text: &str,
        time_zone: Option<&str>,
        anchor: Option<Timestamp>,
    ) -> Result<Self, WindowError> {
        let period = match text {
            "day" => Some(Period::Day),
            "week" => Some(Period::Week),
            "month" => Some(Period::Month),
            "year" => Some(Period::Year),
            _ => None,
        };
        if time_zone.is_some() && period.is_none() {
            return Err(WindowError::TimeZoneUnused);
        }
        if let Some(period) = period {
            if anchor.is_some() {
                return Err(WindowError::AnchorUnused);
            }
            return Ok(Self::Calendar { period, time_zone: find_time_zone(time_zone)? });
        }
        if text == "total" {
            return if anchor.is_some() { Err(WindowError::AnchorUnused) } else { Ok(Self::Total) };
        }
        let length = parse_iso_duration(text)
            .map_err(|_| WindowError::Rule(escape_invisible(shortened(text))))?;
        Ok(Self::Fixed { length, anchor: anchor.unwrap_or(Timestamp::EPOCH) })
    }

    /// The window that contains an instant.
    pub fn window_at(&self, at: Timestamp) -> Result<Window, WindowError> {
        let out_of_range = || WindowError::OutOfRange(at);
        match self {
            Self::Total => Ok(Window { id: WindowId::new("total"), start: None, end: None }),
            Self::Calendar { period, time_zone } => {
                calendar_window(*period, time_zone, at).map_err(|_| out_of_range())
            }
            Self::Fixed { length, anchor } => {
                fixed_window(*length, *anchor, at).ok_or_else(out_of_range)
            }
        }
    }

    /// The windows whose accounts may be opened at a time.
    pub fn open_at(&self, now: Timestamp) -> Result<OpenWindows, WindowError> {
        let current = self.window_at(now)?;
        let soon = current.end.filter(|end| end.since(now) <= OPENS_BEFORE);
        let next = soon.map(|end| self.window_at(end)).transpose()?;
        Ok(OpenWindows { current, next })
    }

    /// The window with this id, if it ended within the last day: a database that lost its row records
    /// late reports about it.
    pub fn ended(&self, id: &WindowId, now: Timestamp) -> Option<Window> {
        let within = match self {
            Self::Total => return None,
            Self::Calendar { .. } => {
                let start = self.window_at(now).ok()?.start?;
                Timestamp::from_millis(start.as_millis().checked_sub(1)?)
            }
            // The id is the start.
            Self::Fixed { .. } => Timestamp::parse(&id.to_string()).ok()?,
        };
        let window = self.window_at(within).ok()?;
        let end = window.end.filter(|end| *end <= now)?;
        (window.id == *id && now.since(end) < KEPT_FOR).then_some(window)
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

fn find_time_zone(name: Option<&str>) -> Result<TimeZone, WindowError> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    let invalid = || WindowError::TimeZone(escape_invisible(shortened(name)));
    TimeZoneDatabase::bundled().get(name).map_err(|_| invalid())
}

fn fixed_window(length: Duration, anchor: Timestamp, at: Timestamp) -> Option<Window> {
    let length = i64::try_from(length.as_millis()).ok().filter(|length| *length > 0)?;
    let since = at.as_millis().checked_sub(anchor.as_millis())?;
    let start = at.as_millis().checked_sub(since.rem_euclid(length))?;
    let end = start.checked_add(length)?;
    let [start, end] = [start, end].map(|millis| {
        let instant = Timestamp::from_millis(millis);
        // Times outside of the supported years are clamped.
        (instant.as_millis() == millis).then_some(instant)
    });
    Some(Window { id: WindowId::new(start?.to_string()), start, end: Some(end?) })
}

fn calendar_window(
    period: Period,
    time_zone: &TimeZone,
    at: Timestamp,
) -> Result<Window, jiff::Error> {
    let instant = jiff::Timestamp::from_millisecond(at.as_millis())?;
    let mut first = period.first_day(time_zone.to_datetime(instant).date())?;
    // Clocks that change around midnight can show a date before its period starts, or the last date
    // of a period again after the next one has started.
    let next = period.following(first)?;
    if start_of(next, time_zone)? <= at {
        first = next;
    } else if at < start_of(first, time_zone)? {
        first = period.first_day(first.yesterday()?)?;
    }
    let end = start_of(period.following(first)?, time_zone)?;
    Ok(Window {
        id: WindowId::new(period.name(first)),
        start: Some(start_of(first, time_zone)?),
        end: Some(end),
    })
}

/// The first instant of a day. Midnight that the clocks skip is the end of the gap; of a repeated
/// midnight, the first one counts.
fn start_of(day: civil::Date, time_zone: &TimeZone) -> Result<Timestamp, jiff::Error> {
    let instant = time_zone.to_timestamp(day.at(0, 0, 0, 0))?;
    Ok(Timestamp::from_millis(instant.as_millisecond()))
}

impl Period {
    /// The first day of the period with this day.
    fn first_day(self, day: civil::Date) -> Result<civil::Date, jiff::Error> {
        match self {
            Self::Day => Ok(day),
            Self::Week => {
                let since_monday = day.weekday().to_monday_zero_offset();
                day.checked_sub(Span::new().days(i64::from(since_monday)))
            }
            Self::Month => Ok(day.first_of_month()),
            Self::Year => Ok(day.first_of_year()),
        }
    }

    /// The first day of the period after the one that starts on `first`.
    fn following(self, first: civil::Date) -> Result<civil::Date, jiff::Error> {
        let one = Span::new();
        first.checked_add(match self {
            Self::Day => one.days(1),
            Self::Week => one.days(7),
            Self::Month => one.months(1),
            Self::Year => one.years(1),
        })
    }

    /// The name of the period that starts on `first`.
    fn name(self, first: civil::Date) -> String {
        let (year, month, day) = (first.year(), first.month(), first.day());
        match self {
            Self::Day => format!("{year:04}-{month:02}-{day:02}"),
            Self::Week => {
                let week = first.iso_week_date();
                format!("{:04}-W{:02}", week.year(), week.week())
            }
            Self::Month => format!("{year:04}-{month:02}"),
            Self::Year => format!("{year:04}"),
        }
    }
}

#[cfg(test)]
mod tests;
