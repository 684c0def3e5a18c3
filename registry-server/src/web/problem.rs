//! Failed requests as pages.

use std::fmt;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header::RETRY_AFTER};

use super::{
    html::{Html, Page},
    secret::RandomFailed,
};
use crate::{access::Denied, app::approvals};

/// A failed request.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
    retry_after: Option<u64>,
}

impl Problem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "This page does not exist.")
    }

    /// A form of another site, or of a browser that hides the origin.
    pub(super) fn foreign() -> Self {
        let message = "The form was not sent by a page of this registry. Open the registry at its public URL.";
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(super) fn signed_out() -> Self {
        let message = "The session has ended. Sign in, and send the form again.";
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(super) fn stale_form() -> Self {
        let message = "The form belongs to another session or request. Open the page again.";
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(super) fn invalid_form(message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A redirect without a pending sign-in of this browser.
    pub(super) fn unknown_sign_in() -> Self {
        let message = "This browser has no pending sign-in with this state, or it took more than \
                       10 minutes. Start the sign-in again.";
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A sign-in that the identity provider has not completed. The log has the reason.
    pub(super) fn failed_sign_in() -> Self {
        let message = "The identity provider did not complete the sign-in. Start it again, or ask \
                       an operator for the reason in the log of the server.";
        Self::new(StatusCode::BAD_GATEWAY, message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let status = match &denied {
            Denied::RateLimited(_) | Denied::TooManyFailures(_) => StatusCode::TOO_MANY_REQUESTS,
            Denied::TokensUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNAUTHORIZED,
        };
        let retry_after = match &denied {
            Denied::RateLimited(wait) | Denied::TooManyFailures(wait) => Some(wait.as_secs() + 1),
            _ => None,
        };
        Self { retry_after, ..Self::new(status, denied.to_string()) }
    }
}

impl From<approvals::Error> for Problem {
    fn from(error: approvals::Error) -> Self {
        let status = match &error {
            approvals::Error::UnknownRequest(_) | approvals::Error::UnknownGrant(_) => {
                StatusCode::NOT_FOUND
            }
            approvals::Error::Decide(_) | approvals::Error::Cancel(_) => StatusCode::CONFLICT,
            approvals::Error::Page(_) => StatusCode::BAD_REQUEST,
            approvals::Error::Relay(_)
            | approvals::Error::Encryption
            | approvals::Error::Ledger(_) => {
                tracing::warn!(%error, "cannot serve the pages of approval requests");
                let message = "The registry cannot read its database now. Try again later.";
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, message);
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<RandomFailed> for Problem {
    fn from(error: RandomFailed) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut content = Html::default();
        content.markup("<p role=\"alert\">").text(&self.message).markup("</p>\n");
        content.markup("<p><a href=\"/approvals\">Open the approvals</a></p>\n");
        let title = self.status.canonical_reason().unwrap_or("Error").to_owned();
        let page = Page { title, content, ..Page::default() };
        let mut response = page.respond(self.status);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
