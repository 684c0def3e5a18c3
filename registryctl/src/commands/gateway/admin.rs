//! Client of the admin address of a gateway: JSON over HTTP, with a bearer token.

use std::time::Duration;

use registry_tls::ClientPem;
use reqwest::{Certificate, Client, Identity, RequestBuilder, StatusCode, Url, redirect::Policy};
use serde_json::Value;

use crate::{
    cli::{AccessArgs, GatewayArgs},
    failure::{Failure, root_cause},
    style::printable,
};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const BYTES: usize = 64 << 20;

pub(super) struct Admin {
    url: String,
    client: Client,
    token: Option<registry_core::Secret>,
}

impl Admin {
    pub(super) fn new(args: &GatewayArgs, access: &AccessArgs) -> Result<Self, Failure> {
        let url = args.admin.trim_end_matches('/').to_owned();
        let parsed = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let parsed = parsed.filter(|url| url.username().is_empty() && url.password().is_none());
        let help = "--admin requires a URL such as http://127.0.0.1:7081, without a user name and password";
        let parsed = parsed.ok_or_else(|| Failure::Usage(help.to_owned()))?;
        let host = parsed.host_str().unwrap_or_default();
        let token = args.token()?;
        let is_loopback = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        if token.is_some()
            && parsed.scheme() == "http"
            && !is_loopback
            && !access.allow_insecure_token
        {
            let message = format!(
                "the admin token would be sent to {host} unencrypted; use https://, or \
                 --allow-insecure-token on a trusted network"
            );
            return Err(Failure::Usage(message));
        }
        Ok(Self { url, client: client(access)?, token })
    }

    pub(super) async fn get(&self, route: &str) -> Result<Value, Failure> {
        self.answer(self.client.get(format!("{}/admin/{route}", self.url))).await
    }

    pub(super) async fn post(&self, route: &str, body: &Value) -> Result<Value, Failure> {
        self.answer(self.client.post(format!("{}/admin/{route}", self.url)).json(body)).await
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        };
        let target = || format!("the gateway at {}", self.url);
        let broken = |e: reqwest::Error| {
            let reason = root_cause(&e);
            let help = remedy(&reason);
            Failure::LiveUnreachable { target: target(), reason }.with_known_help(help)
        };
        let mut response = request.send().await.map_err(broken)?;
        let (status, mut bytes) = (response.status(), Vec::new());
        while let Some(part) = response.chunk().await.map_err(broken)? {
            bytes.extend_from_slice(&part);
            if bytes.len() > BYTES {
                let reason = format!("the response exceeds {} MiB", BYTES >> 20);
                return Err(Failure::InvalidLiveResponse { target: target(), reason });
            }
        }
        let value = serde_json::from_slice::<Value>(&bytes);
        if status.is_success() {
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            let invalid = |e: serde_json::Error| Failure::InvalidLiveResponse {
                target: target(),
                reason: e.to_string(),
            };
            return value.map_err(invalid);
        }
        let value = value.unwrap_or_default();
        let message = Some(text(&value["error"])).filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| match status {
            StatusCode::UNAUTHORIZED => {
                "missing or invalid admin token; pass --admin-token-file or set GATEWAY_ADMIN_TOKEN"
                    .to_owned()
            }
            StatusCode::NOT_FOUND => {
                "not an admin address; set `admin` in the gateway's configuration and use that address"
                    .to_owned()
            }
            status => format!("HTTP status {status}"),
        });
        for problem in list(&value, "problems") {
            eprintln!("  {}", printable(&text(problem)));
        }
        Err(Failure::Rejected(format!("{}: {message}", target())))
    }
}

/// Causes of a failed connection, with their remedies.
const CAUSES: [(&str, &str); 5] = [
    (
        "Connection refused",
        "set `admin` in the gateway's configuration, and pass that address with --admin or \
         GATEWAY_ADMIN_URL",
    ),
    ("invalid HTTP version", "the gateway may use TLS; write https:// in --admin"),
    ("InvalidContentType", "the gateway uses plain HTTP; write http:// in --admin"),
    (
        "CaUsedAsEndEntity",
        "the gateway's certificate is a CA certificate; issue one with basicConstraints=CA:FALSE",
    ),
    (
        "CertificateRequired",
        "the gateway requires a client certificate; pass --client-cert and --client-key",
    ),
];

fn remedy(reason: &str) -> Option<&'static str> {
    if registry_tls::is_untrusted_ca(reason) {
        return Some("pass the CA of the gateway's certificate with --ca-cert FILE");
    }
    CAUSES.iter().find(|(cause, _)| reason.contains(cause)).map(|(_, remedy)| *remedy)
}

/// An HTTP client with the CA bundle and the client certificate of the registry.
fn client(access: &AccessArgs) -> Result<Client, Failure> {
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .timeout(TIMEOUT)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")));
    let invalid = |e: reqwest::Error| Failure::usage(root_cause(&e));
    let ClientPem { ca, identity } = access.tls_files().read_pem()?;
    if let Some(ca) = ca {
        builder = builder.tls_certs_only(Certificate::from_pem_bundle(&ca).map_err(invalid)?);
    }
    if let Some((certificate, key)) = identity {
        let identity = Identity::from_pem(&[certificate, key].concat()).map_err(invalid)?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(invalid)
}

/// A string or number as text; empty for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A list; empty if it is missing.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
