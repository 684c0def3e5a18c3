//! Options of the demo clients: identity, credentials and trust.

use std::{error::Error, fs};

use reqwest::{Certificate, redirect::Policy};

/// How a demo client identifies itself and verifies the gateway.
#[derive(Debug, clap::Args)]
pub struct ClientOptions {
    /// Identity of the client: NAME@VERSION of a registered agent.
    #[arg(long, value_name = "NAME@VERSION", value_parser = identity)]
    agent: Option<Identity>,
    /// API key or bearer token. Other users of this machine can see arguments: prefer
    /// `GATEWAY_TOKEN` or `--token-file`.
    #[arg(long, value_name = "TOKEN", env = "GATEWAY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the API key or bearer token. It takes precedence over `--token`.
    #[arg(long, value_name = "FILE", value_parser = token_in)]
    token_file: Option<String>,
    /// CA bundle (PEM) used to verify the gateway's certificate [default: the system's CAs].
    #[arg(long, value_name = "FILE", value_parser = client_trusting)]
    ca_cert: Option<reqwest::Client>,
}

/// The claimed identity.
#[derive(Debug, Clone)]
struct Identity {
    name: String,
    version: String,
}

impl ClientOptions {
    /// The headers of the claimed identity with their values.
    pub fn identity_headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.agent.iter().flat_map(|Identity { name, version }| {
            [("x-agent-name", name.as_str()), ("x-agent-version", version.as_str())]
        })
    }

    /// The token to send. An empty variable is no token.
    pub fn token(&self) -> Option<&str> {
        let token = self.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
        self.token_file.as_deref().or(token)
    }

    /// A client that trusts only the CAs of `--ca-cert`, if it is set.
    pub fn http_client(&self) -> Option<&reqwest::Client> {
        self.ca_cert.as_ref()
    }
}

fn identity(text: &str) -> Result<Identity, String> {
    let (name, version) = text.split_once('@').ok_or("write NAME@VERSION")?;
    Ok(Identity { name: name.to_owned(), version: version.to_owned() })
}

fn token_in(file: &str) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
    match text.trim() {
        "" => Err("the file is empty; write the token into it".to_owned()),
        token => Ok(token.to_owned()),
    }
}

/// A client that trusts only the CAs in a file. It follows no redirects, because the credentials are
/// for one address.
fn client_trusting(file: &str) -> Result<reqwest::Client, String> {
    let bundle = fs::read(file).map_err(|e| e.to_string())?;
    let authorities = Certificate::from_pem_bundle(&bundle).map_err(|e| with_causes(&e))?;
    if authorities.is_empty() {
        return Err("the file has no certificate in PEM format".to_owned());
    }
    let client = reqwest::Client::builder().tls_certs_only(authorities).redirect(Policy::none());
    client.build().map_err(|e| with_causes(&e))
}

/// Describes a failed HTTP request with its causes, and the remedy for an untrusted certificate.
pub fn describe_http_error(error: &reqwest::Error) -> String {
    let mut text = with_causes(error);
    let untrusted = ["UnknownIssuer", "BadSignature", "UnsupportedSignatureAlgorithmForPublicKey"];
    if untrusted.iter().any(|reason| text.contains(reason)) {
        text +=
            "; pass --ca-cert FILE with the CA bundle (PEM) that verifies the server's certificate";
    }
    text
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        client: ClientOptions,
    }

    /// A file without certificates.
    const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

    #[test]
    fn unusable_files_of_credentials_are_rejected() {
        for (option, file) in [
            ("--token-file", "/dev/null"),
            ("--token-file", "/no/such/file"),
            ("--ca-cert", MANIFEST),
            ("--ca-cert", "/no/such/file"),
        ] {
            let parsed = Cli::try_parse_from(["demo-client", option, file]);
            let rejected = parsed.unwrap_err();
            let text = rejected.to_string();
            assert_eq!(rejected.exit_code(), 2, "{text}");
            assert!(text.contains(option) && text.contains(file), "{text}");
        }
    }

    #[test]
    fn token_file_takes_precedence_over_token() {
        let parsed = |arguments: &[&str]| {
            let all = ["demo-client"].iter().chain(arguments);
            Cli::try_parse_from(all).unwrap().client.token().map(str::to_owned)
        };
        let in_file = fs::read_to_string(MANIFEST).unwrap().trim().to_owned();
        assert_eq!(parsed(&["--token", "a", "--token-file", MANIFEST]), Some(in_file));
        assert_eq!(parsed(&["--token", " a "]).as_deref(), Some("a"));
        assert_eq!(parsed(&["--token", ""]), None);
    }
}
