//! agentgateway as a proxy of one MCP server, a peer of the gateway, if it is on `PATH`.
//!
//! It has no policies and logs only errors. With one target, it does not change names of tools.

use std::{fs, process::Command};

use crate::peer::Peer;

/// Starts agentgateway in front of an upstream. `None` if it is not installed.
pub(crate) fn start(upstream: &str) -> Option<Peer> {
    Peer::start(|dir, port| {
        // The listeners for administrators get free ports.
        let config = format!(
            "config:
  adminAddr: 127.0.0.1:0
  statsAddr: 127.0.0.1:0
  readinessAddr: 127.0.0.1:0
  logging: {{ level: error }}
binds:
- port: {port}
  listeners:
  - routes:
    - backends:
      - mcp:
          targets:
          - name: bench
            mcp: {{ host: \"http://{upstream}/bench/mcp\" }}
"
        );
        let file = dir.join("agentgateway.yaml");
        fs::write(&file, config).expect("the configuration is written");
        let mut command = Command::new("agentgateway");
        command.arg("-f").arg(file);
        command
    })
}
