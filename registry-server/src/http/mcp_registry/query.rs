//! Query parameters of lists.
//!
//! Empty and unknown parameters are ignored.

use mcp_registry::{Cursor, Filter};
use registry_core::Timestamp;

use super::{cursor, problem::Problem};

const DEFAULT_LIMIT: usize = 30;
const MAX_LIMIT: usize = 100;
const MAX_SEARCH_BYTES: usize = 256;
const MAX_VERSION_BYTES: usize = 256;

/// Decoded query parameters.
pub(super) type Parameters = Vec<(String, String)>;

/// Parameters of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    pub(super) filter: Filter,
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

impl Query {
    pub(super) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let limit = limit(parameters)?;
        let requested = RequestedFilter::read(parameters)?;
        let Some(text) = value(parameters, "cursor") else {
            return Ok(Self { filter: requested.filter()?, after: None, limit });
        };
        let invalid = "invalid cursor; restart from the first page without it";
        let (place, filter) = cursor::decode(text).ok_or_else(|| Problem::bad_request(invalid))?;
        if !requested.agrees_with(&filter) {
            let mismatch = "the cursor belongs to a list with other filters; omit the filters, or restart \
                            without the cursor";
            return Err(Problem::bad_request(mismatch));
        }
        Ok(Self { filter, after: Some(place), limit })
    }
}

/// Filters in the URL; optional with a cursor.
struct RequestedFilter {
    search: Option<String>,
    version: Option<String>,
    updated_since: Option<Timestamp>,
    include_deleted: Option<bool>,
}

impl RequestedFilter {
    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let search = value(parameters, "search").map(str::trim).filter(|text| !text.is_empty());
        let search = search.map(|text| bounded("search", text, MAX_SEARCH_BYTES)).transpose()?;
        let version = value(parameters, "version")
            .map(|text| bounded("version", text, MAX_VERSION_BYTES))
            .transpose()?;
        let updated_since = value(parameters, "updated_since").map(time).transpose()?;
        Ok(Self {
            search: search.map(str::to_lowercase),
            version: version.map(str::to_owned),
            updated_since,
            include_deleted: include_deleted(parameters)?,
        })
    }

    /// Includes deleted servers in lists of changes, so that clients see deletions.
    fn filter(self) -> Result<Filter, Problem> {
        let Self { search, version, updated_since, include_deleted } = self;
        if updated_since.is_some() && include_deleted == Some(false) {
            let detail = "include_deleted=false cannot be combined with updated_since, because lists of \
                          changes include deletions";
            return Err(Problem::bad_request(detail));
        }
        let include_deleted = include_deleted.unwrap_or(updated_since.is_some());
        Ok(Filter { search, version, updated_since, include_deleted })
    }

    fn agrees_with(&self, filter: &Filter) -> bool {
        let Self { search, version, updated_since, include_deleted } = self;
        (search.is_none() || *search == filter.search)
            && (version.is_none() || *version == filter.version)
            && (updated_since.is_none() || *updated_since == filter.updated_since)
            && include_deleted.is_none_or(|wanted| wanted == filter.include_deleted)
    }
}

/// Value of `include_deleted`, if present.
pub(super) fn include_deleted(parameters: &Parameters) -> Result<Option<bool>, Problem> {
    match value(parameters, "include_deleted") {
        None => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(Problem::unprocessable("include_deleted must be true or false")),
    }
}

fn limit(parameters: &Parameters) -> Result<usize, Problem> {
    let Some(text) = value(parameters, "limit") else { return Ok(DEFAULT_LIMIT) };
    text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
        Problem::unprocessable(format!("limit must be a number from 1 to {MAX_LIMIT}"))
    })
}

/// Parses a time. An unencoded `+` of its offset arrives as a space.
fn time(text: &str) -> Result<Timestamp, Problem> {
    Timestamp::parse(&text.replace(' ', "+")).map_err(|_| {
        let detail = "updated_since must be an RFC 3339 time, for example 2026-01-31T12:00:00Z";
        Problem::bad_request(detail)
    })
}

fn bounded<'a>(name: &str, text: &'a str, max: usize) -> Result<&'a str, Problem> {
    let too_long = || Problem::unprocessable(format!("{name} exceeds {max} bytes"));
    Some(text).filter(|text| text.len() <= max).ok_or_else(too_long)
}

fn value<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    let found = parameters.iter().find(|(found, _)| found == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}
