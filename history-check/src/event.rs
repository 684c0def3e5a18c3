//! The format of a history: one JSON object per line.
//!
//! Every line has its number `n` (from 1, without gaps), the time `us` (microseconds on a monotonic
//! clock since the start), the time `wall` (milliseconds since 1970), the observer `who`, and an
//! `event` with its fields. A call is written before it is sent, and its answer after it arrived.
//! So the order of lines is consistent with real time: an answered call took effect before the line
//! of its answer, and not before the line of the call.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval_event::ApprovalEvent,
    budget_event::BudgetEvent,
    state::{Entity, SettingState},
};

/// The version of this format.
pub const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The revision of the commit.
    pub n: u64,
    /// Microseconds since the start, on a monotonic clock.
    pub us: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z, on the recorder's wall clock.
    pub wall: u64,
    /// The observer: `writer-0`, `follower-2`, `gateway-1`, `server-0`, `relay-2`, `payer-0`, `buyer-0`,
    /// `approver`, `backend`, `nemesis`, `recorder`. Servers and relays are numbered together, servers first.
    pub who: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The kind of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Workload {
    /// Writers, readers and followers of a catalog.
    #[default]
    Catalog,
    /// Callers of tools with prices.
    Budgets,
    /// Callers of tools that need approvals.
    Approvals,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Catalog => "catalog",
            Self::Budgets => "budgets",
            Self::Approvals => "approvals",
        })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Catalog, Self::Budgets, Self::Approvals];
        let found = all.into_iter().find(|workload| workload.to_string() == text);
        found
            .ok_or_else(|| format!("`{text}` is not a workload; use catalog, budgets or approvals"))
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The first line: the seed of the history and the plan that it produced.
    Begin {
        /// The version of the format.
        format: u32,
        /// The workload.
        #[serde(default)]
        workload: Workload,
        /// The seed.
        seed: u64,
        /// The plan as text, for people.
        plan: Vec<String>,
    },
    /// A client calls a server.
    Call {
        /// The number that links a call to its answer.
        op: u64,
        /// The number of the server or relay.
        server: usize,
        /// The request.
        #[serde(flatten)]
        request: Request,
    },
    /// The answer to a call.
    Answer {
        /// The number of the call.
        op: u64,
        /// The answer.
        #[serde(flatten)]
        answer: Answer,
    },
    /// A follower opens a stream.
    Hello {
        /// The number of the server or relay.
        server: usize,
        /// The roots of its scope; none: everything.
        scope: Vec<String>,
        /// The revision after which it resumes.
        position: Option<u64>,
        /// Whether it sends the digest of its scope's content.
        content: bool,
        /// The line after which it held the state to resume from; absent for an empty state.
        resumes: Option<u64>,
    },
    /// A follower changes its scope on the same stream.
    Rescope {
        /// The roots; none: everything.
        scope: Vec<String>,
    },
    /// A follower received and verified a message, and applied it.
    Took {
        /// The message.
        #[serde(flatten)]
        message: Message,
    },
    /// A follower rejected a message that it could not decode or verify, and kept its state.
    Refused {
        /// Why.
        reason: String,
    },
    /// A follower's stream ended.
    Ended {
        /// Why.
        reason: String,
    },
    /// A program reported that it listens; a gateway also reports the revision of its cache.
    Started {
        /// The revision; absent: none.
        revision: Option<u64>,
    },
    /// A program was killed and has ended.
    Killed {},
    /// A gateway reported its revision.
    Serves {
        /// The revision.
        revision: u64,
    },
    /// A file of a gateway's cache was read. If `spoiled` is set, the nemesis has changed it.
    Cache {
        /// `registry-v2.json`, or the same with `.previous` or `.log`.
        file: String,
        /// The content of the file; hexadecimal for `.log`.
        content: String,
        /// Whether the nemesis has changed its bytes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        spoiled: bool,
    },
    /// The nemesis injected a fault.
    Fault {
        /// The fault.
        fault: String,
        /// Whether a network may repeat or reorder data from here on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeats: bool,
        /// Whether requests may reach a server again, long after their answers, from here on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resends: bool,
    },
    /// All faults have ended and all followers had time to catch up. From here on, each follower
    /// must have everything. With budgets: each gateway has restarted on its disk and reported. With
    /// approvals: the requests of the registry follow.
    Settled {},
    /// An event of a history with budgets.
    Budget {
        /// The event.
        #[serde(flatten)]
        budget: BudgetEvent,
    },
    /// An event of a history with approvals.
    Approval {
        /// The event.
        #[serde(flatten)]
        approval: ApprovalEvent,
    },
    /// The head of a log in the database of the servers or of a relay. Its commits follow.
    Log {
        /// The registry's id.
        registry: String,
        /// The revision of the head.
        revision: u64,
        /// The chain hash of the head.
        chain: String,
    },
    /// One commit of the log.
    Commit {
        /// Its number.
        revision: u64,
        /// The chain hash after it: `sha256:` and 64 digits.
        chain: String,
        /// The canonical commit.
        canonical: String,
        /// The canonical documents that it registers, in the order of its changes.
        documents: Vec<String>,
    },
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    /// Apply a batch.
    Apply {
        /// The request id, which identifies retries.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The base revision.
        #[serde(skip_serializing_if = "Option::is_none")]
        base: Option<u64>,
        /// The author.
        author: String,
        /// The requested changes.
        wanted: Vec<RequestedChange>,
        /// The requested settings, in the form of commits.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        settings: Vec<Value>,
    },
    /// Read one entity.
    Get {
        /// The key of the entity.
        key: String,
    },
    /// List all entities.
    List {},
}

/// A requested change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedChange {
    /// The key of the entity.
    pub key: String,
    /// The digest of the document to register, or the lifecycle state to set.
    #[serde(flatten)]
    pub change: RequestedAction,
}

/// The kind of a requested change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestedAction {
    /// Register a document with this digest.
    Register(String),
    /// Set this lifecycle state.
    State(String),
}

/// An answer of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// The batch was applied.
    Applied {
        /// The revision of the commit, or the current revision if nothing changed.
        revision: u64,
        /// Whether a commit was made.
        committed: bool,
    },
    /// The entity.
    Found {
        /// The revision that was read.
        revision: u64,
        /// The entity that was found.
        entity: Box<Entity>,
    },
    /// The entity does not exist.
    Absent {},
    /// All entities.
    Listed {
        /// The revision that was read.
        revision: u64,
        /// All of them.
        entities: Vec<Entity>,
    },
    /// The server rejected the request.
    Refused {
        /// The machine-readable reason.
        reason: String,
    },
    /// The outcome is unknown.
    Unknown {
        /// The reason.
        reason: String,
    },
}

/// A message to a follower.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Message {
    /// The complete content of the scope.
    Snapshot {
        /// The revision of the content.
        revision: u64,
        /// The chain hash after it.
        chain: String,
        /// The roots of the scope; none: everything.
        scope: Vec<String>,
        /// The oldest available revision, if the snapshot was sent because older ones are missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oldest: Option<u64>,
        /// The entities.
        entities: Vec<Entity>,
        /// The settings.
        settings: Vec<SettingState>,
    },
    /// One commit.
    Delta {
        /// Its number.
        revision: u64,
        /// The chain hash after it.
        chain: String,
        /// The canonical commit.
        canonical: String,
        /// The digests of its documents.
        documents: Vec<String>,
    },
    /// A change of the scope's content.
    Step {
        /// The revision after the step.
        revision: u64,
        /// The chain hash after it.
        chain: String,
        /// The roots of the scope.
        scope: Vec<String>,
        /// Entities that are new or changed.
        put: Vec<Entity>,
        /// Keys of entities that leave.
        removed: Vec<String>,
        /// Settings that are new or changed.
        settings: Vec<SettingState>,
        /// Targets of settings that leave.
        removed_settings: Vec<String>,
    },
    /// Nothing in scope changed up to this revision.
    Progress {
        /// The head.
        revision: u64,
        /// The chain hash after it.
        chain: String,
    },
}
