//! The parameters of a list.
//!
//! An empty parameter is as good as none, and one that the API does not know is not looked at.

use mcp_registry::{Cursor, Filter};
use registry_core::Timestamp;

use super::{cursor, problem::Problem};

const DEFAULT_LIMIT: usize = 30;
const LARGEST_LIMIT: usize = 100;
const LONGEST_SEARCH: usize = 256;
const LONGEST_VERSION: usize = 256;

/// The parameters of a URL, decoded.
pub(super) type Parameters = Vec<(String, String)>;

/// What a list is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    pub(super) filter: Filter,
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

impl Query {
    pub(super) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let limit = limit(parameters)?;
        let asked = Asked::read(parameters)?;
        let Some(text) = value(parameters, "cursor") else {
            return Ok(Self { filter: asked.filter()?, after: None, limit });
        };
        let unreadable =
            "the cursor is not one that this registry gave out; begin again without it";
        let (place, filter) = cursor::read(text).ok_or_else(|| Problem::bad_request(unreadable))?;
        if !asked.agrees_with(&filter) {
            let other = "the cursor belongs to a list with other filters; leave them out, or \
                         begin again without the cursor";
            return Err(Problem::bad_request(other));
        }
        Ok(Self { filter, after: Some(place), limit })
    }
}

/// The filters that the URL has; with a cursor they may be left out.
struct Asked {
    search: Option<String>,
    version: Option<String>,
    updated_since: Option<Timestamp>,
    include_deleted: Option<bool>,
}

impl Asked {
    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let search = value(parameters, "search").map(str::trim).filter(|text| !text.is_empty());
        let search = search.map(|text| bounded("search", text, LONGEST_SEARCH)).transpose()?;
        let version = value(parameters, "version")
            .map(|text| bounded("version", text, LONGEST_VERSION))
            .transpose()?;
        let updated_since = value(parameters, "updated_since").map(time).transpose()?;
        Ok(Self {
            search: search.map(str::to_lowercase),
            version: version.map(str::to_owned),
            updated_since,
            include_deleted: include_deleted(parameters)?,
        })
    }

    /// Who asks what has changed must hear of what was deleted.
    fn filter(self) -> Result<Filter, Problem> {
        let Self { search, version, updated_since, include_deleted } = self;
        if updated_since.is_some() && include_deleted == Some(false) {
            let why = "include_deleted=false cannot be combined with updated_since: who asks for \
                       changes must hear of what was deleted";
            return Err(Problem::bad_request(why));
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

/// Whether deleted versions are wanted, if the URL says so.
pub(super) fn include_deleted(parameters: &Parameters) -> Result<Option<bool>, Problem> {
    match value(parameters, "include_deleted") {
        None => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(Problem::unprocessable("include_deleted is neither true nor false")),
    }
}

fn limit(parameters: &Parameters) -> Result<usize, Problem> {
    let Some(text) = value(parameters, "limit") else { return Ok(DEFAULT_LIMIT) };
    text.parse().ok().filter(|limit| (1..=LARGEST_LIMIT).contains(limit)).ok_or_else(|| {
        Problem::unprocessable(format!("limit must be a number from 1 to {LARGEST_LIMIT}"))
    })
}

/// A time; where the `+` of its offset was not encoded, it arrives as a space.
fn time(text: &str) -> Result<Timestamp, Problem> {
    Timestamp::parse(&text.replace(' ', "+")).map_err(|_| {
        let why = "updated_since is not a time by RFC 3339, like 2026-01-31T12:00:00Z";
        Problem::bad_request(why)
    })
}

fn bounded<'a>(name: &str, text: &'a str, most: usize) -> Result<&'a str, Problem> {
    let why = || Problem::unprocessable(format!("{name} has more than {most} bytes"));
    Some(text).filter(|text| text.len() <= most).ok_or_else(why)
}

fn value<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    let found = parameters.iter().find(|(found, _)| found == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}
