//! Say who follows this server, and how far behind each is.
//!
//! Deliberately absent: followers of other servers on the same database.

use registry_core::Revision;

use super::App;
use crate::feed::Follower;

/// A follower and its distance to the head.
#[derive(Debug)]
pub struct Gateway {
    /// The follower.
    pub follower: Follower,
    /// How many revisions it has yet to apply.
    pub lag: u64,
}

/// Lists followers by name, with the head that their lag is measured against.
pub fn list(app: &App) -> (Vec<Gateway>, Revision) {
    let head = app.catalog().revision();
    let gateway = |follower: Follower| {
        let lag = head.0.saturating_sub(follower.applied.0);
        Gateway { follower, lag }
    };
    (app.feed.roster().followers().into_iter().map(gateway).collect(), head)
}
