//! Metrics of certificates and their files.

/// Counts a change of a TLS file by its outcome.
pub(crate) fn count_reload(outcome: &'static str) {
    metrics::counter!("gateway_tls_reloads_total", "outcome" => outcome).increment(1);
}

/// Counts a rejected or missing client certificate.
pub(crate) fn count_rejected_certificate() {
    metrics::counter!("gateway_tls_client_certificates_rejected_total").increment(1);
}
