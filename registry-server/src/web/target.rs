//! The page after a sign-in. It is never a URL of a request, so that no link redirects to another site.

use std::fmt;

use approval::RequestId;

use super::form::Fields;

/// The inbox, or the page of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Target(pub(super) Option<RequestId>);

impl Target {
    /// The name of the field and of the parameter.
    pub(super) const FIELD: &'static str = "approval";

    /// Reads the target of a form or query. An invalid one is the inbox.
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        Self(fields.one(Self::FIELD).and_then(|id| id.parse().ok()))
    }

    /// The URL of the sign-in page that returns to the target.
    pub(super) fn sign_in(self) -> String {
        format!("/sign-in{}", self.query())
    }

    /// The query that [`Self::read`] reads.
    pub(super) fn query(self) -> String {
        self.0.map_or_else(String::new, |id| format!("?{}={id}", Self::FIELD))
    }
}

impl fmt::Display for Target {
    /// The path of the page.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("/approvals"),
            Some(id) => write!(f, "/approvals/{id}"),
        }
    }
}
