//! Push notifications. Agents send them to the gateway, which checks them like events of a stream
//! and sends them to the URLs of callers.
//!
//! The configurations of callers are in a file beside the cache. Agents only know an address and a
//! token of the gateway. Notifications that wait for their receivers are in memory.

mod config;
mod delivery;
mod file;
mod operations;
mod receive;
mod store;

use std::sync::Arc;

use self::{config::Registration, delivery::Deliveries};
pub(crate) use self::{file::PushFile, store::PushConfigs};
pub(super) use self::{
    receive::{address, receive},
    store::PendingConfig,
};
use crate::pipeline::Gateway;

/// The path of the gateway's endpoints for agents; a sealed address follows.
const PATH: &str = "/a2a/push/";

/// The configurations of all callers, and the notifications for them.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) configs: Arc<PushConfigs>,
    deliveries: Deliveries,
}

impl Push {
    pub(super) fn new(configs: Arc<PushConfigs>) -> Self {
        Self { configs, deliveries: Deliveries::default() }
    }

    /// Whether the gateway still accepts the credentials that created a configuration. The
    /// configuration of a revoked credential is removed.
    fn is_authorized(&self, gateway: &Gateway, registration: &Registration) -> bool {
        if gateway.authenticator().still_accepts(&registration.caller) {
            return true;
        }
        if self.configs.remove(&registration.id) {
            let Registration { id, agent, .. } = registration;
            tracing::warn!(
                config = &**id,
                agent = &**agent,
                "push notification configuration removed: its caller's credential was revoked"
            );
            metrics::counter!("gateway_push_configs_revoked_total").increment(1);
        }
        false
    }

    /// Cancels the deliveries.
    pub(super) async fn shutdown(&self) {
        self.deliveries.shutdown().await;
    }
}
