//! The format of a history: one JSON object a line.
//!
//! Every line has its number `n` (from 1, without gaps), the time `us` (microseconds on a monotonic
//! clock since the start), the time `wall` (milliseconds since 1970), `who` saw it, and an `event` with
//! its fields. A call is written before it is sent and its answer after it came, so that the order
//! of lines is an order of real time: what is answered on a line was done before it, and what is
//! called on a line is not done before it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{Entity, Set};

/// The version of this format.
pub const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub n: u64,
    /// Microseconds since the start, on a monotonic clock.
    pub us: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z, on the recorder's wall clock.
    pub wall: u64,
    /// Whose event it is: `writer-0`, `follower-2`, `gateway-1`, `server-0`, `relay-2`, `nemesis`,
    /// `recorder`. Servers and relays are numbered together, servers first.
    pub who: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The first line: from which seed the history is, and what that decided, for people.
    Begin {
        /// The version of the format.
        format: u32,
        /// The seed.
        seed: u64,
        /// What it decided.
        plan: Vec<String>,
    },
    /// A client calls a server.
    Call {
        /// Which call, to find its answer.
        op: u64,
        /// Which server, or which relay.
        server: usize,
        /// What is asked.
        #[serde(flatten)]
        request: Request,
    },
    /// The answer to a call.
    Answer {
        /// To which call.
        op: u64,
        /// What it says.
        #[serde(flatten)]
        answer: Answer,
    },
    /// A follower opens a stream.
    Hello {
        /// At which server, or which relay.
        server: usize,
        /// The roots of its scope; none: everything.
        scope: Vec<String>,
        /// After which revision it wants to go on.
        position: Option<u64>,
        /// Whether it says which content of its scope it has.
        content: bool,
        /// The line after which it held what it goes on from; absent: it begins with nothing.
        resumes: Option<u64>,
    },
    /// A follower wants another scope on the same stream.
    Rescope {
        /// The roots; none: everything.
        scope: Vec<String>,
    },
    /// A follower received a message, could prove it, and holds what it leads to.
    Took {
        /// The message.
        #[serde(flatten)]
        message: Message,
    },
    /// A follower received what it could not read or prove; it holds what it held before.
    Refused {
        /// Why.
        reason: String,
    },
    /// A follower's stream ended.
    Ended {
        /// Why.
        reason: String,
    },
    /// A program said that it listens; a gateway with the revision of the cache that it loaded.
    Started {
        /// The revision; absent: none.
        revision: Option<u64>,
    },
    /// A program was killed, and is gone.
    Killed {},
    /// A gateway said which revision it serves.
    Serves {
        /// Which.
        revision: u64,
    },
    /// A file of a gateway's cache was read. Only where `spoiled` is absent was it written by the
    /// gateway alone.
    Cache {
        /// `registry-v2.json`, or the same with `.previous` or `.log`.
        file: String,
        /// What was in it; of `.log`, in hexadecimal digits.
        content: String,
        /// Whether the nemesis has changed its bytes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        spoiled: bool,
    },
    /// The nemesis did something.
    Fault {
        /// What.
        fault: String,
        /// Whether, from here on, a network hands things on twice or in another order.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeats: bool,
        /// Whether, from here on, requests may reach a server once more, long after their answers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resends: bool,
    },
    /// Nothing is broken any more, and there was time to catch up: from here on, everybody who
    /// follows has everything.
    Settled {},
    /// The log's registry, as the database of its servers, or of a relay, has it; its commits follow.
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

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    /// To apply a batch.
    Apply {
        /// The id by which retries are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The revision that it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        base: Option<u64>,
        /// Who asks.
        author: String,
        /// What is wanted.
        wanted: Vec<Wanted>,
        /// What is to be set, as commits write it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        settings: Vec<Value>,
    },
    /// To read one entity.
    Get {
        /// Its key.
        key: String,
    },
    /// To read all entities.
    List {},
}

/// One wanted change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Of what.
    pub key: String,
    /// The digest of the document to register, or the lifecycle state to set.
    #[serde(flatten)]
    pub change: WantedChange,
}

/// What is wanted of an entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WantedChange {
    /// To be registered with a document of this digest.
    Register(String),
    /// To be in this lifecycle state.
    State(String),
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// The batch is applied.
    Applied {
        /// The revision of its commit, or the present one where nothing changed.
        revision: u64,
        /// Whether there is a commit of it.
        committed: bool,
    },
    /// The entity.
    Found {
        /// The revision that was read.
        revision: u64,
        /// What was found.
        entity: Entity,
    },
    /// There is no such entity.
    Absent {},
    /// All entities.
    Listed {
        /// The revision that was read.
        revision: u64,
        /// All of them.
        entities: Vec<Entity>,
    },
    /// The server says that nothing was done, and why.
    Refused {
        /// The machine-readable reason.
        reason: String,
    },
    /// Nobody knows whether it was done.
    Unknown {
        /// What is known.
        reason: String,
    },
}

/// What a follower is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Message {
    /// All that is in scope.
    Snapshot {
        /// After which revision.
        revision: u64,
        /// The chain hash after it.
        chain: String,
        /// The roots of the scope; none: everything.
        scope: Vec<String>,
        /// The oldest revision that the stream still has; absent: that is not why it is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oldest: Option<u64>,
        /// The entities.
        entities: Vec<Entity>,
        /// What is set.
        settings: Vec<Set>,
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
    /// What changes in scope.
    Step {
        /// To which revision.
        revision: u64,
        /// The chain hash after it.
        chain: String,
        /// The roots of the scope.
        scope: Vec<String>,
        /// Entities that are new or changed.
        put: Vec<Entity>,
        /// Keys of entities that leave.
        removed: Vec<String>,
    },
    /// Nothing new up to here.
    Progress {
        /// The head.
        revision: u64,
        /// The chain hash after it.
        chain: String,
    },
}
