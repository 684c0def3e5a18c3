//! The followed part of the registry: from the configuration or from a file.
//!
//! An unreadable or invalid file changes nothing.

use std::time::Duration;

use registry_core::Scope;
use tokio::{sync::watch, time::sleep};

use crate::source::ScopeConfig;

/// Polling interval of the file.
const INTERVAL: Duration = Duration::from_secs(2);

/// Returns the scope and a future that keeps it up to date.
pub(super) fn follow(
    ScopeConfig { scope, file }: &ScopeConfig,
) -> (watch::Receiver<Scope>, impl Future<Output = ()> + use<>) {
    let (sender, receiver) = watch::channel(scope.clone());
    let file = file.clone();
    let keep = async move {
        let Some(file) = file else { return std::future::pending().await };
        let mut last_error = None;
        loop {
            sleep(INTERVAL).await;
            let read = ScopeConfig::read(&file);
            match &read {
                Ok(scope) => _ = sender.send_if_modified(|current| replace(current, scope)),
                Err(e) if last_error.as_ref() != Some(e) => {
                    tracing::warn!("scope not reloaded, the previous one stays in effect: {e}");
                }
                Err(_) => {}
            }
            last_error = read.err();
        }
    };
    (receiver, keep)
}

fn replace(current: &mut Scope, scope: &Scope) -> bool {
    let is_other = current != scope;
    if is_other {
        tracing::info!(%scope, "the followed scope has changed");
        *current = scope.clone();
    }
    is_other
}
