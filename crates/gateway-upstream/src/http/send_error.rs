//! The errors of connections and of requests without a response.

use std::{error::Error as StdError, io, iter::successors};

use rustls::AlertDescription;

use super::{Error, Phase, ProtocolViolation};
use crate::TargetId;

type Cause = dyn StdError + 'static;

/// The error of a connection that was not opened.
pub(super) fn of_connection(server: &TargetId, error: &Cause, timeout_ms: u64) -> Error {
    let is_timeout = |cause: &Cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
    };
    if let Some(reason) = causes(error).find_map(refused_certificate) {
        return unavailable(server, reason);
    }
    if causes(error).any(is_timeout) {
        return Error::Timeout { phase: Phase::Connect, after_ms: timeout_ms };
    }
    unavailable(server, root(error))
}

/// The error of a request without a response.
pub(super) fn of_request(
    server: &TargetId,
    error: &hyper::Error,
    is_unsent: bool,
    is_reused: bool,
) -> Error {
    // On a reused connection, an alert does not prove that the request was not processed.
    let refused = |cause: &Cause| refused_certificate(cause).filter(|_| !is_reused);
    let rejection = |cause: &Cause| refused(cause).or_else(|| unprocessed(cause));
    let rejected = causes(error).find_map(rejection);
    match rejected.or_else(|| is_unsent.then(|| root(error))) {
        Some(reason) => unavailable(server, reason),
        None => ProtocolViolation::Closed.into(),
    }
}

fn unavailable(server: &TargetId, reason: String) -> Error {
    Error::Unavailable { target: server.clone(), source: reason.into() }
}

/// An error and its causes.
fn causes(error: &Cause) -> impl Iterator<Item = &Cause> {
    successors(Some(error), |cause| (*cause).source())
}

/// The last cause.
fn root(error: &Cause) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// The error of a request that the upstream certainly did not process: it refused the request, or
/// ended the connection after earlier ones (RFC 9113, sections 6.8 and 8.7).
fn unprocessed(cause: &Cause) -> Option<String> {
    let error: &h2::Error = cause.downcast_ref()?;
    let is_refused = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
    (error.is_remote() && is_refused).then(|| error.to_string())
}

/// The TLS alert of an upstream that rejects the client certificate. With TLS 1.3 it arrives
/// instead of the first response.
fn refused_certificate(cause: &Cause) -> Option<String> {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, DecryptError, UnknownCA, UnsupportedCertificate,
    };
    let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
    let rustls::Error::AlertReceived(alert) = inner.downcast_ref::<rustls::Error>()? else {
        return None;
    };
    let is_about_it = matches!(
        alert,
        AccessDenied
            | BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | DecryptError
            | UnknownCA
            | UnsupportedCertificate
    );
    is_about_it.then(|| {
        format!("the server rejected the gateway's client certificate or requires one: {alert:?}")
    })
}
