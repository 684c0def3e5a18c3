//! The current gateway, shared by all surfaces. A configuration reload replaces it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use registry_jwt::InvalidFile;

use super::{Gateway, Settings};
use crate::identity::settings::AuthenticatorConfig;

/// The gateway of the current configuration. A reload replaces it.
#[derive(Debug, Clone)]
pub struct GatewayHandle(Arc<ArcSwap<Gateway>>);

impl GatewayHandle {
    /// Creates the handle with the first gateway.
    pub fn new(gateway: Gateway) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(gateway)))
    }

    /// Returns the current gateway. An operation keeps the gateway that it started with.
    pub fn current(&self) -> Arc<Gateway> {
        self.0.load_full()
    }

    /// Calls `read` with the current gateway, without taking a reference to it.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Gateway) -> T) -> T {
        read(&self.0.load())
    }

    /// Replaces the gateway by one with other settings.
    ///
    /// Running operations finish with the old gateway. Event streams continue with the new one if
    /// it authenticates callers by the same rules; otherwise they end. Calls must not overlap.
    pub(crate) async fn reconfigure(
        &self,
        settings: Settings,
        authenticator: AuthenticatorConfig,
    ) -> Result<(), InvalidFile> {
        let old = self.current();
        let authenticator = old.authenticator().reconfigured(authenticator).await?;
        let has_same_callers = authenticator.has_rules_of(old.authenticator())
            && settings.origins == old.settings().origins;
        let new = Arc::new(old.reconfigured(settings, authenticator));
        if has_same_callers {
            old.set_successor(&new);
        }
        self.0.store(new);
        old.close_streams();
        Ok(())
    }
}
