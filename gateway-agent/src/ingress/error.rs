//! Why a request is rejected before a surface reads it.

use gateway_policy::QuotaExceeded;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde_json::{Value, json};

use crate::{identity::challenge::AuthenticationError, origin::ForeignSource};

/// Why a request is rejected. The messages contain only data that the caller sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IngressError {
    /// Authentication or authorization failed.
    #[error(transparent)]
    Refused(#[from] AuthenticationError),
    /// The web origin is not allowed.
    #[error("requests from this origin are not allowed; add it to allowedOrigins")]
    ForeignOrigin,
    /// The `Host` is not allowed (protection against DNS rebinding).
    #[error("requests to this host are not allowed; add it to allowedHosts")]
    ForeignHost,
    /// The body exceeds the limit.
    #[error("the request exceeds {limit_bytes} bytes (limits.requestBytes)")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The body is incomplete.
    #[error("the request's body is incomplete")]
    Incomplete,
    /// The limit of event streams is reached.
    #[error(transparent)]
    TooManyStreams(QuotaExceeded),
    /// The memory for buffered requests and results is exhausted.
    #[error(
        "no memory for the request or its response: {0}; wait for the responses of earlier \
             requests, then retry"
    )]
    Buffers(QuotaExceeded),
}

impl From<ForeignSource> for IngressError {
    fn from(source: ForeignSource) -> Self {
        match source {
            ForeignSource::Origin => Self::ForeignOrigin,
            ForeignSource::Host => Self::ForeignHost,
        }
    }
}

impl IngressError {
    /// The reason code, for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.as_str(),
            Self::ForeignOrigin => "origin",
            Self::ForeignHost => "host",
            Self::TooLarge { .. } => "too-large",
            Self::Incomplete => "incomplete",
            Self::TooManyStreams(_) => "too-many-streams",
            Self::Buffers(_) => "buffers-full",
        }
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Refused(AuthenticationError::Missing(_) | AuthenticationError::Invalid(_)) => {
                StatusCode::UNAUTHORIZED
            }
            Self::Refused(AuthenticationError::Insufficient(_))
            | Self::ForeignOrigin
            | Self::ForeignHost => StatusCode::FORBIDDEN,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::TooManyStreams(full) | Self::Buffers(full) => quota_status(full),
        }
    }

    /// Adds the challenge and the time of a retry.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        match self {
            Self::Refused(refusal) => {
                headers.insert(WWW_AUTHENTICATE, refusal.challenge());
            }
            Self::TooManyStreams(_) | Self::Buffers(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
    }

    /// The exceeded memory quota in machine-readable form.
    pub(crate) fn data(&self) -> Option<Value> {
        let Self::Buffers(full) = self else { return None };
        let (shared_by, most) = match full {
            QuotaExceeded::PerCaller { limit: most, .. } => ("caller", most),
            QuotaExceeded::Total { limit: most, .. } => ("all", most),
        };
        Some(json!({ "reason": self.as_str(), "setting": "limits.bufferedBytes",
            "sharedBy": shared_by, "limitBytes": most }))
    }
}

/// The HTTP status of an exhausted quota.
pub(crate) fn quota_status(full: &QuotaExceeded) -> StatusCode {
    match full {
        QuotaExceeded::PerCaller { .. } => StatusCode::TOO_MANY_REQUESTS,
        QuotaExceeded::Total { .. } => StatusCode::SERVICE_UNAVAILABLE,
    }
}
