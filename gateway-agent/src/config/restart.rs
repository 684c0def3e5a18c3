//! What of a changed configuration is taken over only by a restart: sockets, files on disk, and what
//! is followed. And what of it decides who is let in.

use gateway_upstream::UpstreamLimits;

use super::{Config, RegistryConfig};

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
            ("limits.addressConnections", self.address_connections != started.address_connections),
            ("limits.sessions", self.limits.sessions != started.limits.sessions),
            ("registry.source", new.source.address != old.source.address),
            ("registry.scope", new.source.scope != old.source.scope),
            ("registry.key", new.key != old.key),
            ("registry.cache", new.cache != old.cache),
            ("registry.pollInterval", new.source.poll_interval != old.source.poll_interval),
            ("registry.maxStaleness", new.max_staleness != old.max_staleness),
            ("registry.validation.startup", new.startup != old.startup),
            ("the credentials for the registry", new.source.credentials != old.source.credentials),
        ]
        .into_iter()
        .filter_map(|(setting, is_other)| is_other.then_some(setting))
        .collect()
    }

    /// This configuration with what needs a restart as the gateway was started with it.
    pub fn as_served(self, started: &Self) -> Self {
        let limits = UpstreamLimits { sessions: started.limits.sessions, ..self.limits };
        let (runtime, tools) = (self.registry.runtime, self.registry.tools);
        let registry = RegistryConfig { runtime, tools, ..started.registry.clone() };
        Self {
            limits,
            address_connections: started.address_connections,
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
