//! The identity provider as the server's authorization server (`OpenID` Connect Core 1.0, RFC 7636, RFC 9207).

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD},
};
use form_urlencoded::{Serializer, byte_serialize};
use registry_core::{Digest, Secret};
use registry_jwt::{request_failure, without_secrets};
use reqwest::{
    Client, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE},
    redirect::Policy,
};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};

use super::{
    form::Fields,
    pending::SignIn,
    settings::{PublicUrl, WebConfig},
};
use crate::{
    access::{Oidc, OidcConfig, Principal},
    flags::https_url,
};

/// Timeout of a request to the provider.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a response of the provider.
const BYTES: usize = 256 * 1024;
/// The endpoints are read again after this time.
const REFRESH_INTERVAL: Duration = Duration::from_hours(1);
/// Failed requests for the endpoints are repeated after this time at the earliest.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The path of the redirect URI.
pub(super) const CALLBACK: &str = "/sign-in/callback";

/// The sign-in cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSignIn {
    /// The file of the client secret cannot be read, or is empty.
    #[error("cannot read a client secret from {path:?}: {reason} (--sign-in-client-secret-file)")]
    Secret {
        /// The file.
        path: PathBuf,
        /// The failure.
        reason: String,
    },
    /// The issuer has no usable URL.
    #[error("people cannot sign in at the issuer: {0} (--oidc-issuer)")]
    Issuer(String),
    /// The keys of the issuer.
    #[error(transparent)]
    Keys(#[from] registry_jwt::InvalidFile),
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client of the sign-in: {0}")]
    Client(String),
}

/// The identity provider.
pub(super) struct Provider {
    issuer: String,
    redirect_uri: String,
    client_id: String,
    client_secret: Secret,
    id_tokens: Arc<Oidc>,
    client: Client,
    /// Locked during a request for the endpoints.
    discovered: Mutex<Option<Discovered>>,
}

/// The last response to the request for the endpoints.
struct Discovered {
    endpoints: Result<Arc<Endpoints>, String>,
    at: Instant,
}

/// The endpoints of the provider.
#[derive(Debug)]
pub(super) struct Endpoints {
    authorization: Url,
    token: Url,
    /// Whether its redirects have the parameter `iss`.
    names_issuer: bool,
}

/// The metadata of the provider (`OpenID` Connect Discovery 1.0, section 3).
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

#[derive(Deserialize)]
struct TokenResponse {
    id_token: String,
}

impl Provider {
    /// Prepares the sign-in. `None`: it is not configured. The provider may become reachable later.
    pub(super) async fn open(
        config: &WebConfig,
        public: &PublicUrl,
        oidc: &OidcConfig,
    ) -> Result<Option<Self>, InvalidSignIn> {
        let (Some(client_id), Some(path)) =
            (&config.sign_in_client_id, &config.sign_in_client_secret_file)
        else {
            return Ok(None);
        };
        let client_secret = read_secret(path)
            .map_err(|reason| InvalidSignIn::Secret { path: path.clone(), reason })?;
        let issuer = https_url(oidc.oidc_issuer.as_deref().unwrap_or_default());
        let issuer = issuer.map_err(InvalidSignIn::Issuer)?;
        let Some(id_tokens) = Oidc::for_audience(oidc, client_id).await? else { return Ok(None) };
        // A redirect could send the client secret to a host that the operator has not configured.
        let client = Client::builder().redirect(Policy::none()).timeout(TIMEOUT).build();
        Ok(Some(Self {
            issuer,
            redirect_uri: format!("{}{CALLBACK}", public.origin),
            client_id: client_id.clone(),
            client_secret,
            id_tokens,
            client: client.map_err(|e| InvalidSignIn::Client(e.to_string()))?,
            discovered: Mutex::new(None),
        }))
    }

    /// The endpoints. An error is the reason for the log.
    pub(super) async fn endpoints(&self) -> Result<Arc<Endpoints>, String> {
        let mut discovered = self.discovered.lock().await;
        if let Some(last) = &*discovered {
            let interval = if last.endpoints.is_ok() { REFRESH_INTERVAL } else { RETRY_INTERVAL };
            if last.at.elapsed() < interval {
                return last.endpoints.clone();
            }
        }
        let endpoints = self.discover().await.map(Arc::new);
        *discovered = Some(Discovered { endpoints: endpoints.clone(), at: Instant::now() });
        endpoints
    }

    /// The URL at the provider that starts a sign-in.
    pub(super) fn authorization_url(
        &self,
        endpoints: &Endpoints,
        state: &str,
        sign_in: &SignIn,
    ) -> Url {
        let mut url = endpoints.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", "openid profile email")
            .append_pair("state", state)
            .append_pair("nonce", &sign_in.nonce)
            .append_pair("code_challenge", &challenge(&sign_in.verifier))
            .append_pair("code_challenge_method", "S256");
        url
    }

    /// The code in the redirect of the provider. An error is the reason for the log.
    pub(super) fn code<'a>(
        &self,
        endpoints: &Endpoints,
        redirect: &'a Fields<'_>,
    ) -> Result<&'a str, String> {
        // The redirect of another provider must not bring its code here.
        match redirect.one("iss") {
            Some(issuer) if issuer != self.issuer => {
                return Err(format!("the redirect names the issuer {issuer:?}"));
            }
            None if endpoints.names_issuer => {
                return Err("the redirect does not name its issuer".to_owned());
            }
            _ => {}
        }
        if let Some(error) = redirect.one("error") {
            return Err(format!("the identity provider answered {error:?}"));
        }
        redirect.one("code").ok_or_else(|| "the redirect has no code".to_owned())
    }

    /// Exchanges the code of a sign-in, and verifies its ID token. An error is the reason for the log.
    pub(super) async fn exchange(
        &self,
        endpoints: &Endpoints,
        code: &str,
        sign_in: &SignIn,
        address: Option<SocketAddr>,
    ) -> Result<Principal, String> {
        let body = Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", &sign_in.verifier)
            .finish();
        let url = endpoints.token.clone();
        let request = self
            .client
            .post(url.clone())
            .header(AUTHORIZATION, self.credentials())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        let response = request.send().await.map_err(|e| request_failure(url, e))?;
        let response: TokenResponse = read(response).await?;
        self.id_tokens.id_token(&response.id_token, &sign_in.nonce, address).await
    }

    async fn discover(&self) -> Result<Endpoints, String> {
        let issuer = self.issuer.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        let url = url.parse::<Url>().map_err(|e| format!("invalid issuer {issuer:?}: {e}"))?;
        let request = self.client.get(url.clone());
        let response = request.send().await.map_err(|e| request_failure(url, e))?;
        let metadata: Metadata = read(response).await?;
        if metadata.issuer != self.issuer {
            return Err(format!("the metadata have the issuer {:?}", metadata.issuer));
        }
        let methods = metadata.code_challenge_methods_supported;
        if methods.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
            return Err("the identity provider does not support PKCE with S256".to_owned());
        }
        let endpoint = |text: &str| -> Result<Url, String> {
            https_url(text)?.parse::<Url>().map_err(|e| format!("invalid endpoint {text:?}: {e}"))
        };
        Ok(Endpoints {
            authorization: endpoint(&metadata.authorization_endpoint)?,
            token: endpoint(&metadata.token_endpoint)?,
            names_issuer: metadata.authorization_response_iss_parameter_supported,
        })
    }

    /// The value of `Authorization` (RFC 6749, section 2.3.1).
    fn credentials(&self) -> String {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let (id, secret) = (encoded(&self.client_id), encoded(self.client_secret.expose()));
        format!("Basic {}", BASE64.encode(format!("{id}:{secret}")))
    }
}

fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let text = text.trim();
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned().into()) }
}

/// The PKCE challenge of a verifier (RFC 7636, section 4.2).
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Digest::compute(verifier.as_bytes()).as_bytes())
}

/// Reads a successful response of bounded size as JSON. A failed one may contain a secret.
async fn read<T: for<'de> Deserialize<'de>>(mut response: Response) -> Result<T, String> {
    let url = response.url().clone();
    let status = response.status();
    if !status.is_success() {
        return Err(format!("{}: the identity provider answered {status}", without_secrets(url)));
    }
    let mut bytes = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|e| request_failure(url.clone(), e))? {
        bytes.extend_from_slice(&part);
        if bytes.len() > BYTES {
            return Err(format!("the response exceeds {BYTES} bytes"));
        }
    }
    serde_json::from_slice(&bytes).map_err(|e| format!("invalid response: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn challenge_matches_the_specification() {
        let challenge = challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
