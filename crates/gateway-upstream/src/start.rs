//! The parts that a target starts from.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    data_agent::DataAgents, definitions::Definitions, events::EventBus,
    subscriptions::Subscriptions, timing::Timing,
};
use crate::{TargetConfig, UpstreamLimits};

/// The configuration of a target and the parts that it shares with others.
pub(super) struct Start<'a> {
    pub(super) config: &'a TargetConfig,
    pub(super) limits: UpstreamLimits,
    pub(super) timing: Timing,
    pub(super) stop: &'a CancellationToken,
    pub(super) publish: &'a Arc<watch::Sender<Arc<Definitions>>>,
    pub(super) event_bus: &'a EventBus,
    pub(super) subscriptions: &'a Arc<Subscriptions>,
    pub(super) agents: &'a Arc<DataAgents>,
}
