//! Who may call: the settings, and the decision whether callers are asked who they are.
//!
//! Deliberately absent: tokens, which are in the database.

use std::num::NonZeroU32;

use clap::Args;

use super::{Config, InvalidConfig};
use crate::access::Issued;

/// Who may call.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessConfig {
    /// Ask everybody who they are, also on loopback. So it is anyway on other addresses, and where
    /// a token was ever made.
    #[arg(long, env = "REGISTRY_REQUIRE_AUTH", conflicts_with = "insecure")]
    pub require_auth: bool,

    /// Take credentials in plain text on other addresses than loopback, because a proxy or a mesh
    /// before the server speaks TLS.
    #[arg(long, env = "REGISTRY_PLAINTEXT")]
    pub plaintext: bool,

    /// Let anybody read /v0.1 (the MCP registry API), whose clients cannot all send a token.
    #[arg(long, env = "REGISTRY_PUBLIC_MCP_REGISTRY")]
    pub public_mcp_registry: bool,

    /// Requests a second that one principal may make at this server; 0: as many as it likes.
    #[arg(long, env = "REGISTRY_RATE_LIMIT", default_value_t = 500)]
    pub rate_limit: u32,

    /// Requests that a principal may make at once before that rate holds.
    #[arg(long, env = "REGISTRY_RATE_BURST", default_value = "1000")]
    pub rate_burst: NonZeroU32,
}

/// Whether callers are asked who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Nobody is.
    Open,
    /// Everybody is.
    Guarded,
}

impl Config {
    /// Whether callers can prove who they are without an API token.
    pub fn knows_others(&self) -> bool {
        self.tls.tls_client_ca.is_some() || self.oidc.oidc_issuer.is_some()
    }

    /// Decides, or says why the server must not listen there. Tokens that have ended let nobody in,
    /// and keep the door closed all the same: a server does not open because time has passed.
    pub fn door(&self, tokens: Issued) -> Result<Door, InvalidConfig> {
        let is_local = self.listen.ip().is_loopback();
        let can_prove = tokens == Issued::Live || self.knows_others();
        let is_meant_closed = can_prove || tokens == Issued::Ended || self.access.require_auth;
        if self.insecure || is_local && !is_meant_closed {
            return Ok(Door::Open);
        }
        if !is_local && !can_prove {
            return Err(InvalidConfig::Exposed(self.listen));
        }
        if !is_local && self.tls.tls_cert.is_none() && !self.access.plaintext {
            return Err(InvalidConfig::PlainText(self.listen));
        }
        Ok(Door::Guarded)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{Issued::*, *};

    /// Whether callers are asked; or the flag that the refusal names.
    fn door(arguments: &[&str], tokens: Issued) -> Result<Door, String> {
        let config = Config::try_parse_from([&["registry-server"], arguments].concat()).unwrap();
        config.door(tokens).map_err(|e| e.to_string())
    }

    #[test]
    fn on_loopback_tokens_or_a_flag_close_the_door() {
        assert_eq!(door(&["--listen", "127.0.0.1:0"], Never), Ok(Door::Open));
        assert_eq!(door(&["--listen", "[::1]:0"], Never), Ok(Door::Open));
        assert_eq!(door(&[], Live), Ok(Door::Guarded));
        assert_eq!(door(&["--require-auth"], Never), Ok(Door::Guarded));
        assert_eq!(door(&[], Ended), Ok(Door::Guarded));
        assert_eq!(door(&["--insecure"], Live), Ok(Door::Open));
    }

    #[test]
    fn other_machines_need_authentication_and_tls_or_a_deliberate_flag() {
        let all = ["--listen", "0.0.0.0:7070"];
        let with = |flag| [&all[..], &[flag]].concat();
        let refused = door(&all, Never).unwrap_err();
        for part in ["0.0.0.0:7070", "--insecure", "token create"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(door(&with("--require-auth"), Never).unwrap_err().contains("token create"));
        assert!(door(&all, Ended).unwrap_err().contains("token create"));
        let refused = door(&all, Live).unwrap_err();
        assert!(refused.contains("--tls-cert") && refused.contains("--plaintext"), "{refused}");
        assert_eq!(door(&with("--plaintext"), Live), Ok(Door::Guarded));
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        assert_eq!(door(&[&all[..], &tls].concat(), Live), Ok(Door::Guarded));
        assert!(door(&[&all[..], &tls].concat(), Never).is_err());
        let mutual = [&all[..], &tls, &["--tls-client-ca", "ca"]].concat();
        assert_eq!(door(&mutual, Never), Ok(Door::Guarded));
        assert_eq!(door(&with("--insecure"), Never), Ok(Door::Open));
        assert!(
            Config::try_parse_from(["registry-server", "--insecure", "--require-auth"]).is_err()
        );
    }
}
