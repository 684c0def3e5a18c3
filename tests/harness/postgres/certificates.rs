//! A cluster that requires TLS and client certificates over TCP.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::{PrivateCluster, cluster::give_away};
use crate::tls::Authority;

/// Accepts only TLS with a client certificate of the authority.
const RULES: &str = "hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n";

impl PrivateCluster {
    /// Requires client certificates of this authority from now on.
    pub async fn ask_for_certificates(&self, authority: &Authority) {
        let server = authority.server();
        let place = |from: &Path, name: &str| {
            let path = self.data().join(name);
            fs::copy(from, &path).expect("a copy");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own");
            give_away(&path);
        };
        place(&server.certificate, "server.crt");
        place(&server.key, "server.key");
        place(&authority.ca, "ca.crt");
        self.execute("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'").await;
        self.execute("ALTER SYSTEM SET ssl = on").await;
        fs::write(self.data().join("pg_hba.conf"), RULES).expect("the rules are written");
        self.execute("SELECT pg_reload_conf()").await;
        crate::eventually("the rules hold", || async {
            self.log().contains("SIGHUP") && !self.lets_in_without().await
        })
        .await;
    }

    fn data(&self) -> PathBuf {
        self.directory().join("data")
    }
}
