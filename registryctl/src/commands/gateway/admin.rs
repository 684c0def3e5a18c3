//! The admin address of a gateway: JSON over HTTP, with its token where it asks for one.

use std::{fs, path::Path, time::Duration};

use reqwest::{Certificate, Client, Identity, RequestBuilder, StatusCode, Url, redirect::Policy};
use serde_json::Value;

use crate::{
    cli::{AccessArgs, GatewayArgs},
    failure::{Failure, root_cause},
    style::printable,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer, in bytes.
const BYTES: usize = 64 << 20;

/// One gateway.
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
        let help = "--admin: write a URL like http://127.0.0.1:7081, without user and password";
        let parsed = parsed.ok_or_else(|| Failure::Usage(help.to_owned()))?;
        let host = parsed.host_str().unwrap_or_default();
        let token = args.token()?;
        let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        if token.is_some() && parsed.scheme() == "http" && !is_here && !access.plaintext_token {
            let message = format!(
                "the token would go to {host} in plain text; use https://, or --plaintext-token \
                 where the network is trusted"
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
        let broken = |e: reqwest::Error| Failure::LiveUnreachable {
            target: target(),
            reason: root_cause(&e),
        };
        let mut response = request.send().await.map_err(broken)?;
        let (status, mut bytes) = (response.status(), Vec::new());
        while let Some(part) = response.chunk().await.map_err(broken)? {
            bytes.extend_from_slice(&part);
            if bytes.len() > BYTES {
                let reason = format!("it answers more than {} MiB", BYTES >> 20);
                return Err(Failure::LiveAnswer { target: target(), reason });
            }
        }
        let value = serde_json::from_slice::<Value>(&bytes);
        if status.is_success() {
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            let lies = |e: serde_json::Error| Failure::LiveAnswer {
                target: target(),
                reason: e.to_string(),
            };
            return value.map_err(lies);
        }
        let value = value.unwrap_or_default();
        let said = Some(text(&value["error"])).filter(|said| !said.is_empty());
        let said = said.unwrap_or_else(|| match status {
            StatusCode::UNAUTHORIZED => {
                "it asks for its token, and this was none or another; give --admin-token-file"
                    .to_owned()
            }
            StatusCode::NOT_FOUND => {
                "there is no admin address; `admin` in the gateway's configuration opens one"
                    .to_owned()
            }
            status => format!("it answers {status}"),
        });
        for problem in list(&value, "problems") {
            eprintln!("  {}", printable(&text(problem)));
        }
        Err(Failure::Rejected(format!("{}: {said}", target())))
    }
}

/// With the certificates that the user gives for the registry; most fleets have one authority.
fn client(access: &AccessArgs) -> Result<Client, Failure> {
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .timeout(PATIENCE)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")));
    let read = |path: &Path| fs::read(path).map_err(|e| Failure::unreadable(path, e));
    if let Some(path) = &access.ca_cert {
        let invalid = |e: reqwest::Error| Failure::unreadable(path, root_cause(&e));
        let roots = Certificate::from_pem_bundle(&read(path)?).map_err(invalid)?;
        builder = builder.tls_certs_only(roots);
    }
    if let (Some(certificate), Some(key)) = (&access.client_cert, &access.client_key) {
        let pem = [read(certificate)?, read(key)?].concat();
        let invalid = |e: reqwest::Error| Failure::unreadable(certificate, root_cause(&e));
        builder = builder.identity(Identity::from_pem(&pem).map_err(invalid)?);
    }
    builder.build().map_err(|e| Failure::usage(root_cause(&e)))
}

/// A text or a number of an answer; nothing where there is none.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A list of an answer; an empty one where there is none.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
