//! What of a changed configuration is taken over only by a restart: sockets, files on disk, and what
//! is followed. And what of it decides who is let in.
//!
//! Deliberately absent: taking over the rest; `server/reload.rs` does.

use super::{Config, LimitsConfig, RegistryConfig};

impl Config {
    /// The settings that are others than in the configuration that the gateway was started with,
    /// and that need a restart, by their names in the file.
    pub fn needs_restart(&self, started: &Self) -> Vec<&'static str> {
        let (new, old) = (&self.registry, &started.registry);
        [
            ("name", self.name != started.name),
            ("listen", self.listen != started.listen),
            ("tls", self.tls != started.tls),
            ("sessionKeyFile", self.session_key_file != started.session_key_file),
            ("admin", self.admin != started.admin),
            ("tracing", self.tracing != started.tracing),
            (
                "limits.addressConnections",
                self.limits.address_connections != started.limits.address_connections,
            ),
            ("limits.sessions", self.limits.sessions != started.limits.sessions),
            ("registry.source", new.source != old.source),
            ("registry.scope", new.scope != old.scope),
            ("registry.key", new.key != old.key),
            ("registry.cache", new.cache != old.cache),
            ("registry.pollInterval", new.poll_interval != old.poll_interval),
            ("registry.maxStaleness", new.max_staleness != old.max_staleness),
            ("registry.validation.startup", new.startup != old.startup),
            ("the credentials for the registry", new.credentials != old.credentials),
        ]
        .into_iter()
        .filter_map(|(setting, is_other)| is_other.then_some(setting))
        .collect()
    }

    /// Whether it lets in the same callers, and takes them for the same.
    pub fn knows_callers_as(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.proofs == other.proofs
            && self.allowed_origins == other.allowed_origins
            && self.allowed_hosts == other.allowed_hosts
    }

    /// This configuration with what needs a restart as the gateway was started with it.
    pub fn as_served(self, started: &Self) -> Self {
        let LimitsConfig { sessions, address_connections, .. } = started.limits;
        let limits = LimitsConfig { address_connections, sessions, ..self.limits };
        let (runtime, tools) = (self.registry.runtime, self.registry.tools);
        let registry = RegistryConfig { runtime, tools, ..started.registry.clone() };
        Self {
            limits,
            registry,
            name: started.name.clone(),
            listen: started.listen,
            tls: started.tls.clone(),
            session_key_file: started.session_key_file.clone(),
            admin: started.admin.clone(),
            tracing: started.tracing.clone(),
            ..self
        }
    }
}
