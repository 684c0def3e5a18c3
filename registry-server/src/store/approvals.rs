//! Requests for approvals of calls, and standing grants.
//!
//! The crate `approval` computes each change. A transaction locks the row of its request. The creation of a request
//! locks one row for all creations, because its limits count other requests.

mod sql;

use approval::{
    Changed, OpenError, Opened, Principal, Recorded, Request, RequestId, Situation, StandingGrant,
    State, Transition, Wanted,
    limits::{KEPT_FOR, PREVIEW_KEPT_FOR, STORED, STORED_PER_CALLER},
};
use registry_core::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    ledger::{LedgerTransaction, execute_in},
    row::{corrupt, row},
    sql_timestamp::SqlTimestamp,
};

/// Maximum number of requests that one sweep advances.
const SWEEP: i64 = 1_000;

row!(
    /// A request.
    RequestRecord { document: String, preview: Option<String> }
);
row!(
    /// A standing grant or a step.
    DocumentRecord { document: String }
);
row!(
    /// The id of a request.
    IdRecord { id: String }
);
row!(
    /// A number of rows.
    CountRecord { count: i64 }
);

/// Selects requests, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalQuery<'a> {
    /// Only requests in this state.
    pub state: Option<State>,
    /// Only requests of this account.
    pub caller: Option<&'a Principal>,
    /// Only requests after this one.
    pub after: Option<RequestId>,
    /// Maximum number of requests.
    pub limit: usize,
}

impl Store {
    /// Finds or creates the request of a call.
    pub async fn open_approval(
        &self,
        wanted: &Wanted,
        now: Timestamp,
    ) -> Result<Result<Recorded<Request>, OpenError>, Error> {
        self.within(OPERATION_TIMEOUT, open(&self.backend, wanted, now)).await
    }

    /// Changes a request by a function of it and of the number of standing grants of its caller. `None`: there is no
    /// such request.
    pub async fn change_approval<E: Send>(
        &self,
        id: RequestId,
        change: impl Fn(&Request, usize) -> Result<Option<Changed>, E> + Send + Sync,
    ) -> Result<Option<Result<Recorded<Request>, E>>, Error> {
        self.within(OPERATION_TIMEOUT, change_one(&self.backend, id, &change)).await
    }

    /// Finds a request.
    pub async fn approval(&self, id: RequestId) -> Result<Option<Request>, Error> {
        self.within(OPERATION_TIMEOUT, find(&self.backend, id)).await
    }

    /// Lists requests.
    pub async fn approvals(&self, query: ApprovalQuery<'_>) -> Result<Vec<Request>, Error> {
        self.within(OPERATION_TIMEOUT, list(&self.backend, query)).await
    }

    /// The steps of a request, in order.
    pub async fn approval_steps(&self, id: RequestId) -> Result<Vec<Transition>, Error> {
        self.within(OPERATION_TIMEOUT, steps(&self.backend, id)).await
    }

    /// Records the time limits that are over, erases previews, and deletes old requests and grants.
    pub async fn advance_approvals(&self, now: Timestamp) -> Result<Vec<Transition>, Error> {
        let mut transitions = Vec::new();
        let due = self.within(OPERATION_TIMEOUT, due(&self.backend, now)).await?;
        for id in due {
            let advance = |request: &Request, _| Ok::<_, Error>(request.advance(now));
            if let Some(recorded) = self.change_approval(id, advance).await? {
                transitions.extend(recorded?.transitions);
            }
        }
        self.within(OPERATION_TIMEOUT, clean(&self.backend, now)).await?;
        Ok(transitions)
    }

    /// Lists the standing grants of a caller.
    pub async fn standing_grants(&self, caller: &Principal) -> Result<Vec<StandingGrant>, Error> {
        self.within(OPERATION_TIMEOUT, grants(&self.backend, caller)).await
    }

    /// Ends a standing grant.
    pub async fn revoke_grant(&self, origin: RequestId) -> Result<(), Error> {
        let origin = origin.to_string();
        let revoke = async { execute!(&self.backend, sql::DELETE_GRANT, [origin.as_str()]) };
        self.within(OPERATION_TIMEOUT, revoke).await
    }
}

async fn open(
    backend: &Backend,
    wanted: &Wanted,
    now: Timestamp,
) -> Result<Result<Recorded<Request>, OpenError>, Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let mut transaction = LedgerTransaction::begin(backend).await.map_err(explain)?;
    lock_creation(&mut transaction).await.map_err(explain)?;
    let caller = wanted.binding.caller.key().to_string();
    let mut requests = of_caller(backend, &mut transaction, &caller).await?;
    let mut transitions = Vec::new();
    // A request whose limit is over must not block the unique index.
    for request in &mut requests {
        if let Some(changed) = request.advance(now) {
            replace(backend, &mut transaction, request, &changed).await?;
            *request = changed.request;
            transitions.push(changed.transition);
        }
    }
    let grants = grants_of(backend, &mut transaction, &caller).await?;
    let kept = count_kept(&mut transaction, now).await.map_err(explain)?;
    let (requests, grants): (Vec<_>, Vec<_>) = (requests.iter().collect(), grants.iter().collect());
    let situation = Situation { requests: &requests, grants: &grants, kept };
    let opened = match approval::open(wanted.clone(), situation, now) {
        Ok(opened) => opened,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let Opened { request, transition, superseded } = opened;
    for changed in superseded {
        let old = requests.iter().find(|old| old.id == changed.request.id);
        if let Some(old) = old {
            replace(backend, &mut transaction, old, &changed).await?;
        }
        transitions.push(changed.transition);
    }
    if let Some(transition) = transition {
        make_room(&mut transaction, &caller, now).await.map_err(explain)?;
        insert(backend, &mut transaction, &request, &transition).await?;
        transitions.push(transition);
    }
    transaction.commit().await.map_err(explain)?;
    Ok(Ok(Recorded { value: request, transitions }))
}

async fn change_one<E>(
    backend: &Backend,
    id: RequestId,
    change: &(impl Fn(&Request, usize) -> Result<Option<Changed>, E> + Sync),
) -> Result<Option<Result<Recorded<Request>, E>>, Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let mut transaction = LedgerTransaction::begin(backend).await.map_err(explain)?;
    let Some(request) = lock(backend, &mut transaction, id).await? else { return Ok(None) };
    let caller = request.binding.caller.key().to_string();
    let grants = grants_of(backend, &mut transaction, &caller).await?.len();
    let changed = match change(&request, grants) {
        Ok(Some(changed)) => changed,
        Ok(None) => {
            return Ok(Some(Ok(Recorded { value: request, transitions: Vec::new() })));
        }
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    replace(backend, &mut transaction, &request, &changed).await?;
    transaction.commit().await.map_err(explain)?;
    let Changed { request, transition } = changed;
    Ok(Some(Ok(Recorded { value: request, transitions: vec![transition] })))
}

/// Waits for other creations. SQLite has one writer.
async fn lock_creation(transaction: &mut LedgerTransaction) -> Result<(), sqlx::Error> {
    match transaction {
        LedgerTransaction::Sqlite(_) => Ok(()),
        LedgerTransaction::Postgres(of) => {
            sqlx::query(sql::POSTGRES_LOCK_CREATION).execute(of.reader()).await.map(drop)
        }
    }
}

/// Locks a request.
async fn lock(
    backend: &Backend,
    transaction: &mut LedgerTransaction,
    id: RequestId,
) -> Result<Option<Request>, Error> {
    let statement = match transaction {
        LedgerTransaction::Sqlite(_) => sql::FIND,
        LedgerTransaction::Postgres(_) => sql::POSTGRES_LOCK,
    };
    let id = id.to_string();
    let row = run!(
        LedgerTransaction(transaction),
        RequestRecord,
        statement,
        [id.as_str()],
        fetch_optional
    );
    row.map_err(|e| backend.explain(&e))?.map(request).transpose()
}

/// Locks the requests of a caller, in the order of their ids.
async fn of_caller(
    backend: &Backend,
    transaction: &mut LedgerTransaction,
    caller: &str,
) -> Result<Vec<Request>, Error> {
    let statement = match transaction {
        LedgerTransaction::Sqlite(_) => sql::OF_CALLER,
        LedgerTransaction::Postgres(_) => sql::POSTGRES_LOCK_OF_CALLER,
    };
    let rows: Result<Vec<RequestRecord>, _> =
        run!(LedgerTransaction(transaction), RequestRecord, statement, [caller], fetch_all);
    rows.map_err(|e| backend.explain(&e))?.into_iter().map(request).collect()
}

async fn grants_of(
    backend: &Backend,
    transaction: &mut LedgerTransaction,
    caller: &str,
) -> Result<Vec<StandingGrant>, Error> {
    let rows: Result<Vec<DocumentRecord>, _> = run!(
        LedgerTransaction(transaction),
        DocumentRecord,
        sql::GRANTS_OF_CALLER,
        [caller],
        fetch_all
    );
    rows.map_err(|e| backend.explain(&e))?.into_iter().map(grant).collect()
}

/// Counts the requests that make no room.
async fn count_kept(
    transaction: &mut LedgerTransaction,
    now: Timestamp,
) -> Result<usize, sqlx::Error> {
    let row: CountRecord = run!(
        LedgerTransaction(transaction),
        CountRecord,
        sql::COUNT_KEPT,
        [SqlTimestamp(now)],
        fetch_one
    )?;
    Ok(usize::try_from(row.count).unwrap_or_default())
}

/// Deletes the oldest ended requests, so that one more fits.
async fn make_room(
    transaction: &mut LedgerTransaction,
    caller: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let now = SqlTimestamp(now);
    let (of_caller, all) = (signed(STORED_PER_CALLER - 1), signed(STORED - 1));
    execute_in!(&mut *transaction, sql::MAKE_ROOM_OF_CALLER, [caller, now, of_caller])?;
    execute_in!(&mut *transaction, sql::MAKE_ROOM, [now, all])
}

async fn insert(
    backend: &Backend,
    transaction: &mut LedgerTransaction,
    request: &Request,
    transition: &Transition,
) -> Result<(), Error> {
    let columns = Columns::of(request)?;
    let caller = request.binding.caller.key().to_string();
    let key = request.key().to_string();
    let inserted = execute_in!(
        &mut *transaction,
        sql::INSERT,
        [
            columns.id.as_str(),
            caller.as_str(),
            key.as_str(),
            request.state.as_str(),
            columns.revision,
            columns.due_at,
            columns.ended_at,
            columns.room_at,
            columns.document.as_str(),
            request.preview.as_deref(),
        ]
    );
    inserted.map_err(|e| backend.explain(&e))?;
    insert_step(backend, transaction, &columns, transition).await
}

/// Replaces a locked request, and stores its step, its new round and its standing grant.
async fn replace(
    backend: &Backend,
    transaction: &mut LedgerTransaction,
    old: &Request,
    changed: &Changed,
) -> Result<(), Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let request = &changed.request;
    let columns = Columns::of(request)?;
    let updated = execute_in!(
        &mut *transaction,
        sql::UPDATE,
        [
            columns.id.as_str(),
            request.state.as_str(),
            columns.revision,
            columns.due_at,
            columns.ended_at,
            columns.room_at,
            columns.document.as_str(),
        ]
    );
    updated.map_err(explain)?;
    insert_step(backend, transaction, &columns, &changed.transition).await?;
    for used in request.uses.iter().skip(old.uses.len()) {
        let attempt = used.attempt.to_string();
        let round = execute_in!(
            &mut *transaction,
            sql::INSERT_ROUND,
            [columns.id.as_str(), i64::from(used.round), used.gateway.as_str(), attempt.as_str()]
        );
        round.map_err(explain)?;
    }
    if let Some(grant) = request.standing_grant() {
        let caller = grant.binding.caller.key().to_string();
        let document = encode(&grant)?;
        let stored = execute_in!(
            &mut *transaction,
            sql::INSERT_GRANT,
            [columns.id.as_str(), caller.as_str(), SqlTimestamp(grant.ends_at), document.as_str()]
        );
        stored.map_err(explain)?;
    }
    Ok(())
}

async fn insert_step(
    backend: &Backend,
    transaction: &mut LedgerTransaction,
    columns: &Columns,
    step: &Transition,
) -> Result<(), Error> {
    let document = encode(step)?;
    let stored = execute_in!(
        transaction,
        sql::INSERT_STEP,
        [columns.id.as_str(), columns.revision, document.as_str()]
    );
    stored.map_err(|e| backend.explain(&e))
}

async fn find(backend: &Backend, id: RequestId) -> Result<Option<Request>, Error> {
    let id = id.to_string();
    let row = run!(Backend(backend), RequestRecord, sql::FIND, [id.as_str()], fetch_optional);
    row.map_err(|e| backend.explain(&e))?.map(request).transpose()
}

async fn list(backend: &Backend, query: ApprovalQuery<'_>) -> Result<Vec<Request>, Error> {
    let state = query.state.map_or("", State::as_str);
    let caller = query.caller.map(|caller| caller.key().to_string()).unwrap_or_default();
    let after = query.after.map(|id| id.to_string()).unwrap_or_default();
    let rows: Result<Vec<RequestRecord>, _> = run!(
        Backend(backend),
        RequestRecord,
        sql::LIST,
        [after.as_str(), state, caller.as_str(), signed(query.limit)],
        fetch_all
    );
    rows.map_err(|e| backend.explain(&e))?.into_iter().map(request).collect()
}

async fn steps(backend: &Backend, id: RequestId) -> Result<Vec<Transition>, Error> {
    let id = id.to_string();
    let rows: Result<Vec<DocumentRecord>, _> =
        run!(Backend(backend), DocumentRecord, sql::STEPS, [id.as_str()], fetch_all);
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(|row| decode("a step of an approval", &row.document)).collect()
}

async fn grants(backend: &Backend, caller: &Principal) -> Result<Vec<StandingGrant>, Error> {
    let caller = caller.key().to_string();
    let rows: Result<Vec<DocumentRecord>, _> =
        run!(Backend(backend), DocumentRecord, sql::GRANTS_OF_CALLER, [caller.as_str()], fetch_all);
    rows.map_err(|e| backend.explain(&e))?.into_iter().map(grant).collect()
}

async fn due(backend: &Backend, now: Timestamp) -> Result<Vec<RequestId>, Error> {
    let rows: Result<Vec<IdRecord>, _> =
        run!(Backend(backend), IdRecord, sql::DUE, [SqlTimestamp(now), SWEEP], fetch_all);
    let rows = rows.map_err(|e| backend.explain(&e))?;
    let id = |row: IdRecord| {
        let parsed = row.id.parse::<RequestId>();
        parsed.map_err(|e| corrupt(format!("the approval request {:?}", row.id), e))
    };
    rows.into_iter().map(id).collect()
}

async fn clean(backend: &Backend, now: Timestamp) -> Result<(), Error> {
    let erased = SqlTimestamp(before(now, PREVIEW_KEPT_FOR));
    execute!(backend, sql::ERASE_PREVIEWS, [erased])?;
    let deleted = SqlTimestamp(before(now, KEPT_FOR));
    execute!(backend, sql::DELETE_ENDED, [deleted])?;
    execute!(backend, sql::DELETE_GRANTS, [SqlTimestamp(now)])
}

/// The columns of a request that change.
struct Columns {
    id: String,
    revision: i64,
    due_at: Option<SqlTimestamp>,
    ended_at: Option<SqlTimestamp>,
    room_at: Option<SqlTimestamp>,
    document: String,
}

impl Columns {
    fn of(request: &Request) -> Result<Self, Error> {
        Ok(Self {
            id: request.id.to_string(),
            revision: i64::try_from(request.revision).unwrap_or(i64::MAX),
            due_at: request.due_at().map(SqlTimestamp),
            ended_at: request.ended_at().map(SqlTimestamp),
            room_at: request.makes_room_at().map(SqlTimestamp),
            document: encode(&Request { preview: None, ..request.clone() })?,
        })
    }
}

fn request(row: RequestRecord) -> Result<Request, Error> {
    let request: Request = decode("an approval request", &row.document)?;
    Ok(Request { preview: row.preview, ..request })
}

fn grant(row: DocumentRecord) -> Result<StandingGrant, Error> {
    decode("a standing grant", &row.document)
}

fn encode(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| corrupt("an approval", e))
}

fn decode<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|e| corrupt(what, e))
}

fn before(now: Timestamp, duration: std::time::Duration) -> Timestamp {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
