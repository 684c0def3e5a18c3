//! A relay's room for scopes at its registry: it gives back what nobody follows any more.
//!
//! Deliberately absent: the limits of any server on its own followers.

use std::time::{Duration, Instant};

use acceptance::{Gateway, Registry};

use super::{AGENT, key_of, pinned, reaches};
use crate::world::gateway_revision;

const TOOL: &str = "scope: [\"tool/fetch@*\"]";

/// A registry that signs one scope for each of its followers, and its relay.
fn narrow(dir: &tempfile::TempDir) -> (Registry, Registry) {
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--max-caller-scopes", "1"]);
    registry.apply_example();
    let relay = registry.start_relay(&["--follow-key", &key_of(&registry)]);
    (registry, relay)
}

#[tokio::test]
async fn a_scope_that_nobody_follows_any_more_makes_room_for_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let (registry, relay) = narrow(&dir);
    let key = key_of(&registry);
    let mut first = Gateway::start(&pinned(&relay, &key, AGENT));
    reaches(&first, 1).await;
    first.process.stop();
    let second = Gateway::start(&pinned(&relay, &key, TOOL));
    let patience = Instant::now() + Duration::from_secs(100);
    while gateway_revision(&second).await != Some(1) {
        assert!(Instant::now() < patience, "the first one's place is not given back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
