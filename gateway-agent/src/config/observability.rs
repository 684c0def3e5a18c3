//! Reads `admin`, `adminTokenFile` and the `tracing` section.

use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderName, HeaderValue};
use registry_core::parse_socket_address;

use super::read::{Field, Section};
use crate::{
    admin::{AdminConfig, AdminToken},
    files::read_text,
    trace::settings::{OtlpConfig, RecentTraces, TracingConfig},
};

/// Maximum size of a token file, in bytes.
const TOKEN_FILE_BYTES: u64 = 4096;
/// Minimum length of a token, in bytes.
const TOKEN_BYTES: usize = 16;

/// Reads `admin` and `adminTokenFile`.
pub(super) fn admin(root: &Section<'_>) -> Option<AdminConfig> {
    let token_file = root.find("adminTokenFile");
    let has_token = token_file.is_some();
    let token = token_file.and_then(|field| {
        let file = PathBuf::from(field.text()?);
        read_token(&file).map_err(|e| field.problem(format!("{} {e}", file.display()))).ok()
    });
    let field = root.find("admin")?;
    let listen = field.parse(parse_socket_address)?;
    if !listen.ip().is_loopback() && !has_token {
        field.problem(format!(
            "{listen} can be reached from other machines; set `adminTokenFile`, or listen on 127.0.0.1"
        ));
    }
    Some(AdminConfig { listen, token })
}

fn read_token(file: &Path) -> Result<AdminToken, String> {
    let text = read_text(file, TOKEN_FILE_BYTES).map_err(|e| format!("cannot be read: {e}"))?;
    let token = text.trim();
    if token.len() < TOKEN_BYTES || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!(
            "must contain one token of at least {TOKEN_BYTES} visible ASCII characters"
        ));
    }
    Ok(AdminToken::new(token))
}

/// Reads the `tracing` section.
pub(super) fn tracing(root: &Section<'_>) -> TracingConfig {
    let section = root.section("tracing");
    let default = RecentTraces::default();
    let recent = RecentTraces {
        traces: section.positive("recentTraces", default.traces),
        spans: section.positive("spansPerTrace", default.spans),
        bytes: section.positive("recentBytes", default.bytes),
    };
    let otlp = section.find("otlp").and_then(|field| otlp(&field));
    section.finish();
    TracingConfig { recent, otlp }
}

fn otlp(field: &Field<'_>) -> Option<OtlpConfig> {
    let section = field.section();
    let help = "set it to http(s)://host:port of an OTLP/HTTP collector";
    let endpoint = section.require("endpoint", help).and_then(|field| field.parse(endpoint));
    let headers = headers(&section);
    let ratio = section.find("sampleRatio").and_then(|field| field.ratio()).unwrap_or(1.0);
    section.finish();
    Some(OtlpConfig { endpoint: endpoint?, headers, sample_ratio: ratio })
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    let uri: Option<http::Uri> = text.parse().ok();
    let is_web = |uri: &http::Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.query().is_none()
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    };
    let told = "must be http(s)://host:port without credentials; use `headers` for them";
    if uri.as_ref().is_some_and(is_web) { Ok(text.to_owned()) } else { Err(told) }
}

fn headers(section: &Section<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in section.pairs("headers") {
        match (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => section.problem(format!("headers: `{name}` or its value is not valid in HTTP")),
        }
    }
    headers
}
