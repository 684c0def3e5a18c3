//! The gateway's credentials for its registry: a token, a certificate, or none.
//!
//! The files are read for every connection, so that rotation needs no restart. A token is sent only
//! over TLS or to the same machine.

use registry_follow::{Credentials, Token};

use super::{Args, read::Section, tls};
use crate::source::Source;

/// Reads the credentials of the `registry` section and the flags.
pub(super) fn read_section(
    section: &Section<'_>,
    args: &Args,
    source: Option<&Source>,
) -> Credentials {
    let token_file = tls::file(section, "tokenFile");
    let tls = tls::client_files(section);
    let allows_insecure_token = section.switch("allowInsecureToken", false);
    let given = args.registry_token.clone().map(|token| Token::Text(token.expose().to_owned()));
    let token_flag = given.is_some().then_some("--registry-token");
    let credentials = Credentials { token: given.or(token_file.map(Token::File)), tls };
    if let Err(e) = credentials.authorization() {
        section.problem_of("tokenFile", token_flag, format!("invalid token: {e}"));
    }
    if let Err(e) = credentials.tls.read_pem() {
        tls::report(section, &tls::CLIENT_FILES, &e);
    }
    let has_token = credentials.token.is_some();
    if has_token && !allows_insecure_token && source.is_some_and(|source| !is_private(source)) {
        let message = "the token would be sent unencrypted; use grpcs:// or \
                       https://, or set `allowInsecureToken: true` if the network is trusted";
        section.problem_of("source", args.registry.is_some().then_some("--registry"), message);
    }
    credentials
}

/// Whether the connection is encrypted or local.
fn is_private(source: &Source) -> bool {
    match source {
        Source::Grpc(addresses) => addresses.iter().all(|address| Credentials::is_private(address)),
        Source::Http(url) => Credentials::is_private(url),
        Source::File(_) | Source::Discovered => true,
    }
}
