//! `time-server`: the current time in a zone.

pub mod zone;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, offset_text, rfc3339};
use crate::hosted_server::Domain;
use crate::tool_error::ToolError;

/// The time server.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    clock: Clock,
}

/// The time zone.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CurrentTimeRequest {
    /// An IANA zone such as Europe/Berlin, or an offset such as +02:00.
    pub timezone: String,
}

/// The time somewhere.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentTime {
    /// The requested time zone.
    pub timezone: String,
    /// The local time with its offset.
    #[schemars(extend("format" = "date-time"))]
    pub datetime: String,
    /// The day of the week there.
    pub day_of_week: String,
    /// The offset from UTC, `Z` or ±hh:mm.
    pub utc_offset: String,
    /// Whether daylight saving time is on.
    pub is_dst: bool,
}

impl Time {
    /// A server that reads this clock.
    pub const fn new(clock: Clock) -> Self {
        Self { clock }
    }
}

impl Domain for Time {
    const NAME: &'static str = "time-server";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/time/mcp";
    const INSTRUCTIONS: &'static str =
        "Tell the time in a zone; an unknown zone is refused with the list of known ones.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Time {
    /// Get the current time in a time zone.
    #[tool(annotations(
        title = "Get current time",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn get_current_time(
        &self,
        Parameters(request): Parameters<CurrentTimeRequest>,
    ) -> Result<Json<CurrentTime>, ToolError> {
        let now = self.clock.now();
        let (offset, is_dst) = zone::offset_at(&request.timezone, now)?;
        let local = now.to_offset(offset);
        Ok(Json(CurrentTime {
            timezone: request.timezone,
            datetime: rfc3339(local),
            day_of_week: local.weekday().to_string(),
            utc_offset: offset_text(offset),
            is_dst,
        }))
    }
}

#[cfg(test)]
mod tests {
    use ::time::macros::datetime;

    use super::*;

    fn tell(timezone: &str) -> Result<CurrentTime, ToolError> {
        let server = Time::new(Clock::Fixed(datetime!(2026-07-05 23:30 UTC)));
        let request = CurrentTimeRequest { timezone: timezone.to_owned() };
        server.get_current_time(Parameters(request)).map(|told| told.0)
    }

    #[test]
    fn tells_the_local_time() {
        let told = tell("Europe/Berlin").unwrap();
        assert_eq!(told.datetime, "2026-07-06T01:30:00+02:00");
        assert_eq!((told.day_of_week.as_str(), told.is_dst), ("Monday", true));
        assert_eq!(tell("UTC").unwrap().datetime, "2026-07-05T23:30:00Z");
        assert_eq!(tell("-03:30").unwrap().datetime, "2026-07-05T20:00:00-03:30");
    }

    #[test]
    fn unknown_time_zone_is_rejected_with_known_zones() {
        let error = tell("Mars/Olympus").unwrap_err();
        assert_eq!(error.code, "unknown_timezone");
        assert!(error.message.contains("Asia/Tokyo"), "{}", error.message);
    }
}
