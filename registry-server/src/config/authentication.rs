//! The decision whether callers must authenticate.

use super::{Config, InvalidConfig};
use crate::access::Issued;

/// Whether callers must authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// Every caller has full access.
    Disabled,
    /// Every caller needs a credential.
    Required,
}

impl Config {
    /// Whether callers can authenticate without an API token.
    pub fn has_other_credentials(&self) -> bool {
        self.tls.tls_client_ca.is_some() || self.oidc.oidc_issuer.is_some()
    }

    /// Decides from the address, the credentials and the flags. Inactive tokens still require
    /// authentication: a server must not open because time has passed.
    pub fn authentication(&self, tokens: Issued) -> Result<Authentication, InvalidConfig> {
        let is_local = self.listen.ip().is_loopback();
        let has_credentials = tokens == Issued::Active || self.has_other_credentials();
        let requires_authentication =
            has_credentials || tokens == Issued::Inactive || self.access.require_auth;
        if self.access.insecure || is_local && !requires_authentication {
            return Ok(Authentication::Disabled);
        }
        if !is_local && !has_credentials {
            let (address, database) = (self.listen, self.database_url()?);
            return Err(InvalidConfig::Exposed { address, database });
        }
        if !is_local && self.tls.tls_cert.is_none() && !self.access.plaintext {
            return Err(InvalidConfig::PlainText(self.listen));
        }
        Ok(Authentication::Required)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{Issued::*, *};

    /// The decision, or the text of the rejection.
    fn authentication(arguments: &[&str], tokens: Issued) -> Result<Authentication, String> {
        let config = Config::try_parse_from([&["registry-server"], arguments].concat()).unwrap();
        config.authentication(tokens).map_err(|e| e.to_string())
    }

    #[test]
    fn loopback_requires_authentication_with_tokens_or_flag() {
        assert_eq!(
            authentication(&["--listen", "127.0.0.1:0"], Never),
            Ok(Authentication::Disabled)
        );
        assert_eq!(authentication(&["--listen", "[::1]:0"], Never), Ok(Authentication::Disabled));
        assert_eq!(authentication(&[], Active), Ok(Authentication::Required));
        assert_eq!(authentication(&["--require-auth"], Never), Ok(Authentication::Required));
        assert_eq!(authentication(&[], Inactive), Ok(Authentication::Required));
        assert_eq!(authentication(&["--insecure"], Active), Ok(Authentication::Disabled));
    }

    #[test]
    fn non_loopback_requires_authentication_and_tls() {
        let all = ["--listen", "0.0.0.0:7070"];
        let with = |flag| [&all[..], &[flag]].concat();
        let error = authentication(&all, Never).unwrap_err();
        insta::assert_snapshot!(
            error,
            @"refusing to listen on 0.0.0.0:7070 without authentication: the database \
              sqlite:./data/registry.db has no active token. Create one with `registry-server token \
              create --name NAME --role admin`, configure client certificates (--tls-client-ca) or \
              an identity provider (--oidc-issuer), or pass --insecure if the network restricts \
              access. Name another database with --database"
        );
        assert_eq!(authentication(&with("--require-auth"), Never).unwrap_err(), error);
        assert_eq!(authentication(&all, Inactive).unwrap_err(), error);
        let error = authentication(&all, Active).unwrap_err();
        insta::assert_snapshot!(
            error,
            @"refusing to accept credentials on 0.0.0.0:7070 in plain text: pass --tls-cert and \
              --tls-key, or --plaintext if a proxy or a service mesh in front of the server \
              terminates TLS"
        );
        assert_eq!(authentication(&with("--plaintext"), Active), Ok(Authentication::Required));
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        assert_eq!(
            authentication(&[&all[..], &tls].concat(), Active),
            Ok(Authentication::Required)
        );
        assert!(authentication(&[&all[..], &tls].concat(), Never).is_err());
        let mutual = [&all[..], &tls, &["--tls-client-ca", "ca"]].concat();
        assert_eq!(authentication(&mutual, Never), Ok(Authentication::Required));
        assert_eq!(authentication(&with("--insecure"), Never), Ok(Authentication::Disabled));
        assert!(
            Config::try_parse_from(["registry-server", "--insecure", "--require-auth"]).is_err()
        );
    }
}
