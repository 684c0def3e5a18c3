//! The client's session (protocol versions before 2026-07-28) with the state needed to reopen it.

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

use super::incoming::ClientRequest;
/// Maximum number of stored requests.
const KEPT: usize = 1_000;
/// The only protocol version with batches.
const WITH_BATCHES: &str = "2025-03-26";

#[derive(Debug)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held while the session is being reopened.
    pub(super) opening: tokio::sync::Mutex<()>,
    /// Incremented for each new session.
    generation: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    initialize: Option<Bytes>,
    headers: HeaderMap,
    /// Whether the client has sent `notifications/initialized`.
    is_initialized: bool,
    /// Requests to repeat in a new session: the log level and resource subscriptions.
    changes: BTreeMap<Box<str>, Bytes>,
}

/// A snapshot of the session.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionSnapshot {
    /// The session id and protocol version, once the session is open.
    pub(super) headers: HeaderMap,
    pub(super) generation: u64,
}

impl SessionSnapshot {
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

    pub(super) fn snapshot(&self) -> SessionSnapshot {
        let state = self.state();
        SessionSnapshot { headers: state.headers.clone(), generation: *self.generation.borrow() }
    }

    /// Notifies of each new session.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Stores the session that the client's `initialize` opened.
    pub(super) fn opened(&self, initialize: Bytes, headers: &HeaderMap, result: &RawValue) {
        let initialize = Some(initialize);
        *self.state() = State { initialize, ..State::default() };
        self.renewed(headers, result);
    }

    /// Stores the session that replaces a lost one.
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

    /// The stored `initialize`, unless a newer session exists.
    pub(super) fn initialize_for_reopen(&self, lost: u64) -> Option<Bytes> {
        if *self.generation.borrow() != lost {
            return None;
        }
        self.state().initialize.clone()
    }

    /// Records `notifications/initialized`. Returns whether it is the first.
    pub(super) fn initialized(&self) -> bool {
        !std::mem::replace(&mut self.state().is_initialized, true)
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.state().is_initialized
    }

    pub(super) fn takes_batches(&self) -> bool {
        self.state().headers.get(PROTOCOL_VERSION).is_some_and(|version| version == WITH_BATCHES)
    }

    /// Stores a request that changes the session's state.
    pub(super) fn store_state_change(
        &self,
        client_request: &ClientRequest,
        params: Option<&RawValue>,
    ) {
        let uri = || params.and_then(read_object::<Watched>).map(|watched| watched.uri);
        let (key, is_end) = match &*client_request.method {
            "logging/setLevel" => (Some(String::new()), false),
            "resources/subscribe" => (uri(), false),
            "resources/unsubscribe" => (uri(), true),
            _ => return,
        };
        let Some(key) = key else { return };
        let state_changes = &mut self.state().changes;
        if is_end {
            state_changes.remove(key.as_str());
        } else if state_changes.len() < KEPT {
            state_changes.insert(key.into(), client_request.body.clone());
        }
    }

    /// The requests that restore the state in a new session.
    pub(super) fn state_changes(&self) -> Vec<Bytes> {
        self.state().changes.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
