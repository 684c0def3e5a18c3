//! Builds statuses with machine-readable details (`google.rpc.Status`).

use std::time::Duration;

use prost::Message as _;
use prost_types::Any;
use tonic::{Code, Status};
use tonic_types::pb;

use crate::metrics;

/// A status under construction.
pub(super) struct Refusal {
    code: Code,
    reason: &'static str,
    message: String,
    metadata: Vec<(&'static str, String)>,
    details: Vec<Any>,
}

impl Refusal {
    pub(super) fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, reason, message, metadata: Vec::new(), details: Vec::new() }
    }

    /// Adds an entry to the metadata of `ErrorInfo`.
    pub(super) fn with(mut self, name: &'static str, value: &impl ToString) -> Self {
        self.metadata.push((name, value.to_string()));
        self
    }

    /// Adds a detail of this type.
    pub(super) fn detail(mut self, name: &str, message: &impl prost::Message) -> Self {
        self.details.push(any(name, message));
        self
    }

    /// Names the invalid field of the request.
    pub(super) fn field(self, field: &str) -> Self {
        let (field, description) = (field.to_owned(), self.message.clone());
        let violation =
            pb::bad_request::FieldViolation { field, description, ..Default::default() };
        let details = pb::BadRequest { field_violations: vec![violation] };
        self.detail("google.rpc.BadRequest", &details)
    }

    /// The client may retry after this delay.
    pub(super) fn retry_after(self, delay: Duration) -> Self {
        let delay = prost_types::Duration::try_from(delay).unwrap_or_default();
        self.detail("google.rpc.RetryInfo", &pb::RetryInfo { retry_delay: Some(delay) })
    }
}

impl From<Refusal> for Status {
    fn from(Refusal { code, reason, message, metadata, details }: Refusal) -> Self {
        metrics::failed(reason);
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
        let info = pb::ErrorInfo {
            reason: reason.to_owned(),
            domain: "registry".to_owned(),
            metadata: metadata.collect(),
        };
        let mut all = vec![any("google.rpc.ErrorInfo", &info)];
        all.extend(details);
        let whole = pb::Status { code: code.into(), message: message.clone(), details: all };
        Status::with_details(code, message, whole.encode_to_vec().into())
    }
}

fn any(name: &str, message: &impl prost::Message) -> Any {
    Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}
