//! Negotiates the era of an upstream from its responses to `server/discover` and `initialize`.

use std::{borrow::Cow, sync::Arc};

use gateway_protocol::{
    jsonrpc::{Object, code, read_object},
    mcp::{Capabilities, LEGACY_VERSIONS, MODERN_VERSION},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    error::{Error, ProtocolViolation},
    reply::Reply,
};

/// The key of `serverInfo` in `_meta`.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The decision after a response to `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Negotiation {
    Modern,
    /// The upstream does not know the method; continue with `initialize`.
    Legacy,
    /// The upstream is modern and supports only other versions.
    Foreign,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult<'a> {
    #[serde(borrow)]
    supported_versions: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct UnsupportedVersion<'a> {
    #[serde(borrow)]
    supported: Vec<Cow<'a, str>>,
}

/// Evaluates the response to `server/discover`. Only a valid modern response makes a modern server.
pub(super) fn after_discover(reply: &Reply) -> Negotiation {
    let versions = match reply {
        Reply::Result(raw) => {
            read_object::<DiscoverResult<'_>>(raw).map(|result| result.supported_versions)
        }
        Reply::Error(error) => match (error.code, error.data.as_deref()) {
            (code::UNSUPPORTED_PROTOCOL_VERSION, Some(data)) => {
                read_object::<UnsupportedVersion<'_>>(data).map(|data| data.supported)
            }
            (code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY, _) => {
                return Negotiation::Modern;
            }
            _ => return Negotiation::Legacy,
        },
    };
    versions.map_or(Negotiation::Legacy, |versions| choose(&versions))
}

/// Whether this response to `initialize` comes from a server of the modern era only. A server that
/// starts slowly may have left `server/discover` unanswered until its time limit.
pub(super) fn is_modern_only(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(_)) && after_discover(reply) == Negotiation::Modern
}

fn choose(versions: &[Cow<'_, str>]) -> Negotiation {
    if versions.iter().any(|version| version == MODERN_VERSION) {
        Negotiation::Modern
    } else if versions.iter().any(|version| LEGACY_VERSIONS.contains(&version.as_ref())) {
        Negotiation::Legacy
    } else {
        Negotiation::Foreign
    }
}

/// The self-description of an upstream.
#[derive(Debug, Clone, Default)]
pub(super) struct UpstreamInfo {
    /// The declared capabilities.
    pub(super) capabilities: Capabilities,
    /// The `instructions` for the model.
    pub(super) instructions: Option<String>,
    /// The `serverInfo`.
    pub(super) info: Option<Arc<RawValue>>,
}

impl UpstreamInfo {
    /// Reads the response to `server/discover` or `initialize`.
    pub(super) fn of_reply(reply: &Reply) -> Option<Self> {
        #[derive(Deserialize)]
        struct Said<'a> {
            #[serde(borrow)]
            capabilities: Option<&'a RawValue>,
            instructions: Option<String>,
            #[serde(borrow, rename = "serverInfo")]
            info: Option<&'a RawValue>,
            #[serde(borrow, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        let Reply::Result(raw) = reply else { return None };
        let Said { capabilities, instructions, info, meta } = read_object(raw)?;
        let capabilities = capabilities.map(Capabilities::from).unwrap_or_default();
        // 2025-11-25 has it in the result of `initialize`, 2026-07-28 in `_meta`.
        let meta = meta.and_then(|raw| Object::parse(raw).ok());
        let info = info.or_else(|| meta.as_ref()?.find(SERVER_INFO));
        let info = info.map(|raw| Arc::from(raw.to_owned()));
        Some(Self { capabilities, instructions, info })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult<'a> {
    #[serde(borrow)]
    protocol_version: Cow<'a, str>,
}

/// Evaluates the response to `initialize` and returns the negotiated version.
pub(super) fn after_initialize(reply: Reply) -> Result<&'static str, Error> {
    let raw: Box<RawValue> = reply.into_result()?;
    let result: InitializeResult<'_> =
        read_object(&raw).ok_or(ProtocolViolation::Shape("initialize"))?;
    let known = LEGACY_VERSIONS.into_iter().find(|version| *version == result.protocol_version);
    known.ok_or_else(|| ProtocolViolation::NoCommonVersion.into())
}

#[cfg(test)]
mod tests {
    use gateway_protocol::jsonrpc::{Limits, Message, parse};

    use super::*;

    fn reply(outcome: &str) -> Reply {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,{outcome}}}"#);
        let Ok(Message::Response(response)) = parse(body.as_bytes(), Limits::with_max_bytes(1000))
        else {
            panic!("{body}")
        };
        response.outcome.into()
    }

    #[test]
    fn only_valid_modern_responses_are_modern() {
        let unsupported = |supported: &str| {
            format!(
                r#""error":{{"code":-32022,"message":"no","data":{{"supported":{supported}}}}}"#
            )
        };
        for (outcome, verdict) in [
            (r#""result":{"supportedVersions":["2026-07-28","x"]}"#.into(), Negotiation::Modern),
            (r#""result":{"supportedVersions":["2025-06-18"]}"#.into(), Negotiation::Legacy),
            (r#""result":{"supportedVersions":["2031-01-01"]}"#.into(), Negotiation::Foreign),
            (r#""result":{}"#.into(), Negotiation::Legacy),
            (r#""result":[["2026-07-28"]]"#.into(), Negotiation::Legacy),
            (r#""error":{"code":-32601,"message":"?"}"#.into(), Negotiation::Legacy),
            (r#""error":{"code":-32000,"message":"?"}"#.into(), Negotiation::Legacy),
            (r#""error":{"code":-32020,"message":"?"}"#.into(), Negotiation::Modern),
            (r#""error":{"code":-32022,"message":"?"}"#.into(), Negotiation::Legacy),
            (unsupported(r#"["2027-01-01","2025-11-25"]"#), Negotiation::Legacy),
            (unsupported(r#"["2027-01-01"]"#), Negotiation::Foreign),
        ] {
            assert_eq!(after_discover(&reply(&outcome)), verdict, "{outcome}");
        }
    }

    #[test]
    fn initialize_negotiates_a_known_version() {
        let version = |version: &str| {
            after_initialize(reply(&format!(r#""result":{{"protocolVersion":"{version}"}}"#)))
        };
        assert_eq!(version("2025-03-26").unwrap(), "2025-03-26");
        let error = version("2031-01-01").unwrap_err();
        assert!(matches!(error, Error::Protocol { what: ProtocolViolation::NoCommonVersion }));
        let error = after_initialize(reply(r#""error":{"code":-5,"message":"m"}"#)).unwrap_err();
        assert!(matches!(error, Error::Rpc { code: -5, .. }));
    }
}
