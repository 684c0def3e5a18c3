//! The configured headers of a target, with the current secrets from files.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{task::spawn_blocking, time::sleep};

use super::client::InvalidAddress;
use crate::{TargetId, secret::SecretSource};

/// Interval between reads of the files.
const FRESH: Duration = Duration::from_secs(2);

type Configured = BTreeMap<String, SecretSource>;

/// The current headers. If a file becomes invalid, its previous value stays in use.
#[derive(Debug)]
pub(super) struct SecretHeaders(Arc<ArcSwap<HeaderMap>>);

impl SecretHeaders {
    /// Reads the headers and reloads changed files until dropped. Must be called inside a Tokio
    /// runtime.
    pub(super) fn open(server: &TargetId, configured: &Configured) -> Result<Self, InvalidAddress> {
        let current = Arc::new(ArcSwap::from_pointee(read(configured)?));
        if configured.values().any(SecretSource::may_change) {
            let (server, configured) = (server.clone(), configured.clone());
            tokio::spawn(keep_fresh(server, configured, Arc::downgrade(&current)));
        }
        Ok(Self(current))
    }

    /// Adds the headers to a request. The request's own headers take precedence.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in self.0.load().iter() {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

fn read(configured: &Configured) -> Result<HeaderMap, InvalidAddress> {
    let mut headers = HeaderMap::new();
    for (name, secret) in configured {
        let invalid = || InvalidAddress::Header(name.clone());
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(secret.read()?).map_err(|_| invalid())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Reports each change once, even if it is invalid.
async fn keep_fresh(server: TargetId, configured: Configured, current: Weak<ArcSwap<HeaderMap>>) {
    let configured = Arc::new(configured);
    let mut told = None;
    loop {
        sleep(FRESH).await;
        if current.strong_count() == 0 {
            return;
        }
        let source = Arc::clone(&configured);
        // Fails only when the runtime shuts down.
        let Ok(read) = spawn_blocking(move || read(&source)).await else { return };
        let Some(current) = current.upgrade() else { return };
        let failure = match read {
            Ok(headers) if headers == **current.load() => None,
            Ok(headers) => {
                current.store(Arc::new(headers));
                tracing::info!(target.server = %server, "secrets changed; new requests use them");
                None
            }
            Err(reason) => Some(reason.to_string()),
        };
        if failure != told
            && let Some(reason) = &failure
        {
            tracing::error!(target.server = %server, reason, "secrets changed and are invalid; the previous ones stay in use");
        }
        told = failure;
    }
}
