//! Settings of the pages and of the sign-in.

use std::{path::PathBuf, str::FromStr};

use clap::Args;
use reqwest::Url;

use crate::flags::https_url;

/// Pages for browsers, and their sign-in.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pages")]
pub struct WebConfig {
    /// Serve pages for approvals at this URL, which browsers use, such as `https://registry.example`
    ///
    /// Requires HTTPS, except on localhost, where cookies lack the prefix `__Host-` and `Secure`. A relay has no
    /// pages. Sessions are in the memory of one server: a load balancer must keep a browser on one server.
    #[arg(
        long,
        env = "REGISTRY_PUBLIC_URL",
        value_name = "URL",
        conflicts_with = "follow",
        hide_short_help = true
    )]
    pub public_url: Option<PublicUrl>,

    /// Client id of this server at the identity provider, for the sign-in of people
    ///
    /// The sign-in uses the code flow with PKCE. The redirect URI is /sign-in/callback at the public URL. ID tokens
    /// have the issuer, keys and claims of the options --oidc-… and this audience.
    #[arg(
        long,
        env = "REGISTRY_SIGN_IN_CLIENT_ID",
        value_name = "ID",
        requires_all = ["sign_in_client_secret_file", "public_url", "oidc_issuer"],
        hide_short_help = true
    )]
    pub sign_in_client_id: Option<String>,

    /// File with the client secret of this server at the identity provider
    #[arg(
        long,
        env = "REGISTRY_SIGN_IN_CLIENT_SECRET_FILE",
        value_name = "FILE",
        requires = "sign_in_client_id",
        hide_short_help = true
    )]
    pub sign_in_client_secret_file: Option<PathBuf>,
}

/// The URL of the pages: a scheme, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// The URL as browsers write it in `Origin`.
    pub(super) origin: String,
    /// Whether browsers use HTTPS.
    pub(super) is_secure: bool,
}

impl PublicUrl {
    /// The URL as browsers write it in `Origin`.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        https_url(text)?;
        let url = Url::parse(text).map_err(|e| format!("invalid URL `{text}`: {e}"))?;
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if !is_bare {
            return Err(format!(
                "invalid URL `{text}`: write only https://HOST or https://HOST:PORT"
            ));
        }
        let is_secure = url.scheme() == "https";
        Ok(Self { origin: url.origin().ascii_serialization(), is_secure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_is_the_origin_of_browsers() {
        for (text, origin) in [
            ("https://Registry.Example/", "https://registry.example"),
            ("https://registry.example:443", "https://registry.example"),
            ("https://registry.example:8443", "https://registry.example:8443"),
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("http://localhost:80/", "http://localhost"),
        ] {
            let parsed: PublicUrl = text.parse().unwrap();
            assert_eq!((&*parsed.origin, parsed.is_secure), (origin, text.starts_with("https")));
        }
    }

    #[test]
    fn public_url_needs_https_and_no_path() {
        for text in [
            "http://registry.example",
            "https://registry.example/pages",
            "https://registry.example?a",
            "https://registry.example#a",
            "https://ann@registry.example",
            "registry.example",
            "",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text}");
        }
    }
}
