//! The session of a client before 2026-07-28: how it was opened, so that it can be opened again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use gateway_protocol::{
    jsonrpc::read_object,
    mcp::header::{PROTOCOL_VERSION, SESSION_ID},
};
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::incoming::Asked;
/// Most requests whose effect on a session is kept.
const KEPT: usize = 1_000;
/// The only version with batches.
const WITH_BATCHES: &str = "2025-03-26";

/// The session.
#[derive(Debug)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held while the session is opened again.
    pub(super) opening: tokio::sync::Mutex<()>,
    /// The number of sessions so far.
    generation: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    initialize: Option<Bytes>,
    headers: HeaderMap,
    /// Whether the client has sent `notifications/initialized`.
    is_initialized: bool,
    /// Requests that changed the session: the log level and the watched resources.
    kept: BTreeMap<Box<str>, Bytes>,
}

/// The session as of now.
#[derive(Debug, Clone, Default)]
pub(super) struct Bound {
    /// The session id and the version, once the session is open.
    pub(super) headers: HeaderMap,
    pub(super) generation: u64,
}

impl Bound {
    /// Whether there is a session that can be lost.
    pub(super) fn has_session(&self) -> bool {
        self.headers.contains_key(&SESSION_ID)
    }
}

#[derive(Deserialize)]
struct Opened {
    #[serde(rename = "protocolVersion")]
    version: String,
}

#[derive(Deserialize)]
struct Watched {
    uri: String,
}

impl Session {
    pub(super) fn new() -> Self {
        let generation = watch::Sender::new(0);
        Self { state: Mutex::default(), opening: tokio::sync::Mutex::default(), generation }
    }

    pub(super) fn bound(&self) -> Bound {
        let state = self.state();
        Bound { headers: state.headers.clone(), generation: *self.generation.borrow() }
    }

    /// Resolves at each new session.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Takes over the session that this `initialize` of the client opened.
    pub(super) fn opened(&self, initialize: Bytes, headers: &HeaderMap, result: &RawValue) {
        let initialize = Some(initialize);
        *self.state() = State { initialize, ..State::default() };
        self.renewed(headers, result);
    }

    /// Takes over the session that replaces a lost one.
    pub(super) fn renewed(&self, headers: &HeaderMap, result: &RawValue) {
        let version = read_object::<Opened>(result).map(|opened| opened.version);
        let version = version.and_then(|version| HeaderValue::try_from(version).ok());
        let id = headers.get(SESSION_ID).cloned();
        let names = [PROTOCOL_VERSION, SESSION_ID];
        let pairs = names.into_iter().zip([version, id]);
        let mut state = self.state();
        state.headers = pairs.filter_map(|(name, value)| Some((name, value?))).collect();
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// The `initialize` that opens the session again, unless there is a newer session already.
    pub(super) fn to_open_again(&self, lost: u64) -> Option<Bytes> {
        if *self.generation.borrow() != lost {
            return None;
        }
        self.state().initialize.clone()
    }

    /// Notes `notifications/initialized`. Returns whether it is the first.
    pub(super) fn initialized(&self) -> bool {
        !std::mem::replace(&mut self.state().is_initialized, true)
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.state().is_initialized
    }

    /// Whether the client may send batches.
    pub(super) fn takes_batches(&self) -> bool {
        self.state().headers.get(PROTOCOL_VERSION).is_some_and(|version| version == WITH_BATCHES)
    }

    /// Keeps a request that changed the session.
    pub(super) fn keep(&self, asked: &Asked, params: Option<&RawValue>) {
        let uri = || params.and_then(read_object::<Watched>).map(|watched| watched.uri);
        let (key, is_end) = match &*asked.method {
            "logging/setLevel" => (Some(String::new()), false),
            "resources/subscribe" => (uri(), false),
            "resources/unsubscribe" => (uri(), true),
            _ => return,
        };
        let Some(key) = key else { return };
        let kept = &mut self.state().kept;
        if is_end {
            kept.remove(key.as_str());
        } else if kept.len() < KEPT {
            kept.insert(key.into(), asked.body.clone());
        }
    }

    /// The requests that give a new session the state of the one before.
    pub(super) fn kept(&self) -> Vec<Bytes> {
        self.state().kept.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
