//! The settings that only a restart applies: sockets, files on disk, and the followed source.

use gateway_upstream::UpstreamLimits;

use super::{Config, InvalidConfig, Problem, RegistryConfig};

impl Config {
    /// Returns the names of the settings that differ from the started configuration and need a
    /// restart.
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

    /// Returns this configuration with the started values of the settings that need a restart. The
    /// combination must not expose a listener that each of the two configurations protects.
    pub fn with_started_values(self, started: &Self) -> Result<Self, InvalidConfig> {
        let limits = UpstreamLimits { sessions: started.limits.sessions, ..self.limits };
        let (runtime, tools) = (self.registry.runtime, self.registry.tools);
        let registry = RegistryConfig { runtime, tools, ..started.registry.clone() };
        let config = Self {
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
        };
        if config.is_exposed() && !config.args.insecure {
            let message = format!(
                "{} can be reached from other machines, and without a restart callers need not \
                 authenticate over TLS, because `listen` and `tls` keep their values; keep \
                 `required` with `apiKeys` or `jwt`, or restart the gateway",
                config.listen
            );
            let problem = Problem { line: None, field: "identity".to_owned(), message };
            return Err(InvalidConfig { file: config.args.file(), problems: vec![problem] });
        }
        Ok(config)
    }
}
