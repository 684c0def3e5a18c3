//! Follows a registry server: sends the gateway's state on the Sync stream, and applies the
//! received messages. Only this module uses the API's generated types.
//!
//! Messages that do not decode or verify are rejected; the last valid catalog stays in effect.

mod clock;
mod findings;
mod incoming;
mod snapshot;
mod unsigned;

use registry_core::{Revision, Scope, chain::Position, follower::CacheState};
use registry_follow::{
    Follow, Follower, FollowerMessage, MessageEffect, RejectedMessage, StreamState, shortened,
};
use registry_proto::{
    convert,
    v1::{Ack, ClientHello, SyncRequest, SyncResponse, sync_request::Message},
};
use tokio::sync::watch;

use self::{clock::ClockCheck, incoming::Incoming};
use crate::{cache::DiskState, feed::Feed};

/// Maximum length of a disk error, in bytes; the API has the same limit.
const DISK_BYTES: usize = 1024;
/// The remedy if the gateway cannot continue from its cache.
const REMEDY: &str = "stop the gateway, delete its cache (with .previous and .log, and with .pins \
                      for another registry) and restart it, or correct `registry.source`";
/// The `User-Agent` of the gateway.
pub const AGENT: &str = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));

/// Keeps the cache at the registry's latest revision until the feed is stopped. `name` is the
/// gateway's name in the registry.
pub async fn follow(follower: &Follower, name: String, feed: Feed, scope: watch::Receiver<Scope>) {
    let stop = feed.stop.clone();
    let follower_state = GatewayFollower {
        name,
        incoming: Incoming::new(feed.cache.clone(), feed.catalog_verifier.clone()),
        scope,
        persisted: feed.cache.persisted(),
        disk: feed.cache.disk(),
        clock: ClockCheck::default(),
        feed,
    };
    follower.run(follower_state, stop).await;
}

struct GatewayFollower {
    name: String,
    incoming: Incoming,
    scope: watch::Receiver<Scope>,
    persisted: watch::Receiver<Revision>,
    disk: watch::Receiver<DiskState>,
    clock: ClockCheck,
    feed: Feed,
}

impl Follow for GatewayFollower {
    fn hello(&mut self) -> ClientHello {
        let wanted = self.scope.borrow_and_update().clone();
        self.incoming = Incoming::new(self.feed.cache.clone(), self.feed.catalog_verifier.clone());
        self.incoming.asked_for(wanted.clone());
        let held = self.feed.cache.current();
        let (wants_all, has_all) =
            (wanted == Scope::Everything, **held.scope() == Scope::Everything);
        // A partial catalog cannot be extended to everything, and a content digest is valid for its
        // scope only.
        let is_of_use = self.feed.cache.has_catalog() && (has_all || !wants_all);
        let is_wanted = is_of_use && !has_all && **held.scope() == wanted;
        let content = is_wanted.then(|| held.content_digest().to_string());
        ClientHello {
            gateway: self.name.clone(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: (!wants_all).then(|| (&wanted).into()),
            position: is_of_use.then(|| (&Position::of_catalog(&held)).into()),
            content_digest: content.unwrap_or_default(),
            ..ClientHello::default()
        }
    }

    async fn apply(&mut self, message: SyncResponse) -> Result<MessageEffect, RejectedMessage> {
        self.incoming.take(message).await
    }

    fn next_revision(&self) -> Revision {
        self.feed.cache.current().revision().next()
    }

    fn ack(&mut self) -> Ack {
        let (cache_state, cache_problem) =
            convert::cache_state_fields(disk_state(&self.disk.borrow_and_update()));
        Ack {
            applied_revision: self.feed.cache.current().revision().0,
            persisted_revision: self.persisted.borrow_and_update().0,
            cache_state,
            cache_problem,
        }
    }

    async fn next_message(&mut self) -> FollowerMessage {
        tokio::select! {
            Ok(()) = self.scope.changed() => {
                let wanted = self.scope.borrow_and_update().clone();
                self.incoming.asked_for(wanted.clone());
                FollowerMessage::Send(SyncRequest { message: Some(Message::Scope((&wanted).into())) })
            }
            Ok(()) = self.persisted.changed() => FollowerMessage::Ack,
            Ok(()) = self.disk.changed() => FollowerMessage::Ack,
            else => std::future::pending().await,
        }
    }

    fn on_status(&mut self, heard: StreamState<'_>) {
        match heard {
            StreamState::Live => {
                let signed_at = self.incoming.signed_at();
                if let Some(time) =
                    signed_at.filter(|_| self.feed.catalog_verifier.requires_signature())
                {
                    self.clock.compare(time);
                }
                self.feed.live(self.incoming.age(), signed_at);
            }
            StreamState::Down(reason) | StreamState::ScopeLimit(reason) => {
                self.feed.status.down(reason);
                metrics::counter!("gateway_sync_reconnects_total").increment(1);
            }
            StreamState::Nacked => metrics::counter!("gateway_sync_nacks_total").increment(1),
            StreamState::Rejected(reason) => {
                self.feed.status.rejected(reason);
                metrics::counter!("gateway_sync_reconnects_total").increment(1);
            }
        }
    }

    fn reset_advice(&self) -> &'static str {
        REMEDY
    }

    fn credentials_advice(&self) -> &'static str {
        "check `registry.tokenFile`, or `registry.certFile` and `registry.keyFile`"
    }
}

fn disk_state(disk: &DiskState) -> CacheState {
    match disk {
        DiskState::Ok => CacheState::Ok,
        DiskState::Failing(reason) => {
            let line = reason.replace(char::is_control, " ");
            CacheState::Failing(shortened(&line, DISK_BYTES).to_owned())
        }
        DiskState::None => CacheState::None,
    }
}
