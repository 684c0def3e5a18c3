//! Requests for approvals of calls, and standing grants.
//!
//! The crate `approval` computes each change. A transaction locks the row of its request. The creation of a request
//! locks one row for all creations, because its limits count other requests. A database that may lack transactions may
//! lack consumptions too. A new generation of the ledger therefore ends all earlier requests and grants.

mod sql;

use approval::{
    Changed, OpenError, Opened, Principal, Recorded, Request, RequestId, Situation, StandingGrant,
    State, Transition, Wanted,
    limits::{KEPT_FOR, PREVIEW_KEPT_FOR, STORED},
};
use registry_core::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{
    Error, LedgerFailure, NewAccessEvent, OPERATION_TIMEOUT, SeenState, Store,
    backend::{Backend, execute, run},
    ledger::{LedgerTransaction, execute_in},
    row::{corrupt, row},
    sql_timestamp::SqlTimestamp,
};

/// Maximum number of requests that one sweep advances.
const SWEEP: i64 = 1_000;

row!(
    /// A request.
    RequestRecord { document: String, preview: Option<String>, generation: i64 }
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
    /// The fingerprint of the key.
    KeyRecord { fingerprint: String }
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

/// Selects standing grants, in the order of their origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantQuery {
    /// Only grants after this one.
    pub after: Option<RequestId>,
    /// Only grants that end later.
    pub now: Timestamp,
    /// Maximum number of grants.
    pub limit: usize,
}

/// The conditions of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalContext {
    /// The newest state of the ledger that this server has seen.
    pub seen: SeenState,
    /// The time.
    pub now: Timestamp,
}

/// The access event of a decision.
#[derive(Debug, Clone, Copy)]
pub struct DecisionEvent<'a> {
    /// `approval-approved` or `approval-denied`.
    pub kind: &'static str,
    /// The person, the time and details.
    pub what: &'a NewAccessEvent,
}

const GRANT_REVOKED: &str = "approval-grant-revoked";

impl Store {
    /// Finds or creates the request of a call.
    pub async fn open_approval(
        &self,
        wanted: &Wanted,
        context: ApprovalContext,
    ) -> Result<Result<Recorded<Request>, OpenError>, LedgerFailure> {
        self.within(OPERATION_TIMEOUT, open(&self.backend, wanted, context)).await
    }

    /// Changes a request by a function of it and of the number of standing grants of its caller. A new decision stores
    /// its event. `None`: there is no such request.
    pub async fn change_approval<E: Send>(
        &self,
        id: RequestId,
        context: ApprovalContext,
        event: Option<DecisionEvent<'_>>,
        change: impl Fn(&Request, usize) -> Result<Option<Changed>, E> + Send + Sync,
    ) -> Result<Option<Result<Recorded<Request>, E>>, LedgerFailure> {
        let changed = Box::pin(change_one(&self.backend, id, context, event, &change));
        self.within(OPERATION_TIMEOUT, changed).await
    }

    /// Finds a request.
    pub async fn approval(&self, id: RequestId) -> Result<Option<Request>, Error> {
        self.within(OPERATION_TIMEOUT, find(&self.backend, id)).await
    }

    /// Lists requests without their previews.
    pub async fn approvals(&self, query: ApprovalQuery<'_>) -> Result<Vec<Request>, Error> {
        self.within(OPERATION_TIMEOUT, list(&self.backend, query)).await
    }

    /// The steps of a request, in order.
    pub async fn approval_steps(&self, id: RequestId) -> Result<Vec<Transition>, Error> {
        self.within(OPERATION_TIMEOUT, steps(&self.backend, id)).await
    }

    /// Records the time limits that are over, erases previews, and deletes old requests and grants.
    pub async fn advance_approvals(
        &self,
        context: ApprovalContext,
    ) -> Result<Vec<Transition>, LedgerFailure> {
        let mut transitions = Vec::new();
        let due = self.within(OPERATION_TIMEOUT, due(&self.backend, context.now)).await?;
        for id in due {
            let advance = |request: &Request, _| Ok::<_, Error>(request.advance(context.now));
            if let Some(recorded) = self.change_approval(id, context, None, advance).await? {
                transitions.extend(recorded?.transitions);
            }
        }
        self.within(OPERATION_TIMEOUT, clean(&self.backend, context.now)).await?;
        Ok(transitions)
    }

    /// Lists the standing grants of a caller.
    pub async fn standing_grants(&self, caller: &Principal) -> Result<Vec<StandingGrant>, Error> {
        self.within(OPERATION_TIMEOUT, grants(&self.backend, caller)).await
    }

    /// Lists the standing grants of all callers.
    pub async fn all_grants(&self, query: GrantQuery) -> Result<Vec<StandingGrant>, Error> {
        self.within(OPERATION_TIMEOUT, all_grants(&self.backend, query)).await
    }

    /// Finds a standing grant.
    pub async fn standing_grant(&self, origin: RequestId) -> Result<Option<StandingGrant>, Error> {
        self.within(OPERATION_TIMEOUT, find_grant(&self.backend, origin)).await
    }

    /// The fingerprint of the key of approvals. Stores `ours` if the database has none.
    pub async fn approval_key(&self, ours: &str) -> Result<String, Error> {
        self.within(OPERATION_TIMEOUT, known_key(&self.backend, ours)).await
    }

    /// Ends a standing grant, and cancels its unused approvals. `None`: there is no such grant.
    pub async fn revoke_grant(
        &self,
        grant: &StandingGrant,
        by: &Principal,
        event: &NewAccessEvent,
        context: ApprovalContext,
    ) -> Result<Option<Vec<Transition>>, LedgerFailure> {
        self.within(OPERATION_TIMEOUT, revoke(&self.backend, grant, by, event, context)).await
    }
}

async fn revoke(
    backend: &Backend,
    grant: &StandingGrant,
    by: &Principal,
    event: &NewAccessEvent,
    context: ApprovalContext,
) -> Result<Option<Vec<Transition>>, LedgerFailure> {
    let mut writer = Writer::begin_recorded(backend).await?;
    // A creation uses the grant before, and its approval is cancelled, or finds no grant.
    writer.lock_creation().await?;
    let stored = writer.lock_requests(&grant.binding.caller.key().to_string()).await?;
    writer.check(context.seen).await?;
    if !writer.delete_grant(grant.origin).await? {
        return Ok(None);
    }
    let mut transitions = Vec::new();
    for Stored { request, .. } in &stored {
        if let Some(changed) = request.lose_grant(grant.origin, by, context.now) {
            writer.replace(request, &changed).await?;
            transitions.push(changed.transition);
        }
    }
    writer.record(GRANT_REVOKED, grant.origin, event).await?;
    writer.commit().await?;
    Ok(Some(transitions))
}

async fn open(
    backend: &Backend,
    wanted: &Wanted,
    context: ApprovalContext,
) -> Result<Result<Recorded<Request>, OpenError>, LedgerFailure> {
    let mut writer = Writer::begin(backend).await?;
    writer.lock_creation().await?;
    let caller = wanted.binding.caller.key().to_string();
    let mut stored = writer.lock_requests(&caller).await?;
    writer.check(context.seen).await?;
    let mut transitions = Vec::new();
    // A request that has ended must not block the unique index.
    for stored in &mut stored {
        if let Some(changed) = writer.overdue(stored, context.now) {
            writer.replace(&stored.request, &changed).await?;
            stored.request = changed.request;
            transitions.push(changed.transition);
        }
    }
    let grants = writer.grants(&caller).await?;
    let kept = writer.count_kept(context.now).await?;
    let requests: Vec<_> = stored.iter().map(|stored| &stored.request).collect();
    let grants: Vec<_> = grants.iter().collect();
    let situation = Situation { requests: &requests, grants: &grants, kept };
    let opened = match approval::open(wanted.clone(), situation, context.now) {
        Ok(opened) => opened,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let Opened { request, transition, superseded, displaced } = opened;
    for changed in superseded {
        if let Some(old) = requests.iter().find(|old| old.id == changed.request.id) {
            writer.replace(old, &changed).await?;
        }
        transitions.push(changed.transition);
    }
    if let Some(transition) = transition {
        writer.make_room(&displaced, context.now).await?;
        writer.insert(&request, &transition).await?;
        transitions.push(transition);
    }
    writer.commit().await?;
    Ok(Ok(Recorded { value: request, transitions }))
}

async fn change_one<E>(
    backend: &Backend,
    id: RequestId,
    context: ApprovalContext,
    event: Option<DecisionEvent<'_>>,
    change: &(impl Fn(&Request, usize) -> Result<Option<Changed>, E> + Sync),
) -> Result<Option<Result<Recorded<Request>, E>>, LedgerFailure> {
    let mut writer = if event.is_some() {
        // A refused decision must not delay commits.
        let Some(known) = find(backend, id).await? else { return Ok(None) };
        let grants = grants(backend, &known.binding.caller).await?.len();
        if let Err(refusal) = change(&known, grants) {
            return Ok(Some(Err(refusal)));
        }
        Writer::begin_recorded(backend).await?
    } else {
        Writer::begin(backend).await?
    };
    let Some(stored) = writer.lock_request(id).await? else { return Ok(None) };
    writer.check(context.seen).await?;
    let mut recorded = Recorded { value: stored.request.clone(), transitions: Vec::new() };
    if writer.is_lost(&stored)
        && let Some(changed) = stored.request.recover(context.now)
    {
        writer.replace(&stored.request, &changed).await?;
        writer.commit().await?;
        recorded.value = changed.request;
        recorded.transitions.push(changed.transition);
        // The ended request explains the refusal.
        return Ok(Some(change(&recorded.value, 0).map(|_| recorded)));
    }
    let caller = stored.request.binding.caller.key().to_string();
    let grants = writer.grants(&caller).await?.len();
    let changed = match change(&stored.request, grants) {
        Ok(Some(changed)) => changed,
        Ok(None) => return Ok(Some(Ok(recorded))),
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    writer.replace(&stored.request, &changed).await?;
    // A changed tool or policy ends the request without a decision.
    let is_decided = changed.request.decisions.len() > stored.request.decisions.len();
    if let Some(DecisionEvent { kind, what }) = event.filter(|_| is_decided) {
        writer.record(kind, id, what).await?;
    }
    writer.commit().await?;
    recorded.value = changed.request;
    recorded.transitions.push(changed.transition);
    Ok(Some(Ok(recorded)))
}

/// A request with the generation of its last step.
struct Stored {
    request: Request,
    generation: i64,
}

/// A transaction.
struct Writer<'a> {
    backend: &'a Backend,
    transaction: LedgerTransaction,
    /// The generation of the ledger, after [`Self::check`].
    generation: i64,
}

impl<'a> Writer<'a> {
    async fn begin(backend: &'a Backend) -> Result<Self, Error> {
        Self::begun(backend, LedgerTransaction::begin(backend).await)
    }

    /// Starts a transaction that can store an access event.
    async fn begin_recorded(backend: &'a Backend) -> Result<Self, Error> {
        Self::begun(backend, LedgerTransaction::begin_recorded(backend).await)
    }

    fn begun(
        backend: &'a Backend,
        begun: Result<LedgerTransaction, sqlx::Error>,
    ) -> Result<Self, Error> {
        let transaction = begun.map_err(|e| backend.explain(&e))?;
        Ok(Self { backend, transaction, generation: 0 })
    }

    async fn record(
        &mut self,
        kind: &str,
        subject: RequestId,
        event: &NewAccessEvent,
    ) -> Result<(), Error> {
        let recorded = self.transaction.record(kind, &subject.to_string(), event).await;
        recorded.map_err(|e| self.backend.explain(&e))
    }

    async fn commit(self) -> Result<(), Error> {
        self.transaction.commit().await.map_err(|e| self.backend.explain(&e))
    }

    /// Waits for other creations. SQLite has one writer.
    async fn lock_creation(&mut self) -> Result<(), Error> {
        let LedgerTransaction::Postgres(of) = &mut self.transaction else { return Ok(()) };
        let locked = sqlx::query(sql::POSTGRES_LOCK_CREATION).execute(of.reader()).await;
        locked.map(drop).map_err(|e| self.backend.explain(&e))
    }

    async fn lock_request(&mut self, id: RequestId) -> Result<Option<Stored>, Error> {
        let statement = match self.transaction {
            LedgerTransaction::Sqlite(_) => sql::FIND,
            LedgerTransaction::Postgres(_) => sql::POSTGRES_LOCK,
        };
        let id = id.to_string();
        let row = run!(
            LedgerTransaction(&mut self.transaction),
            RequestRecord,
            statement,
            [id.as_str()],
            fetch_optional
        );
        row.map_err(|e| self.backend.explain(&e))?.map(stored).transpose()
    }

    /// Locks the requests of a caller, in the order of their ids.
    async fn lock_requests(&mut self, caller: &str) -> Result<Vec<Stored>, Error> {
        let statement = match self.transaction {
            LedgerTransaction::Sqlite(_) => sql::OF_CALLER,
            LedgerTransaction::Postgres(_) => sql::POSTGRES_LOCK_OF_CALLER,
        };
        let rows: Result<Vec<RequestRecord>, _> = run!(
            LedgerTransaction(&mut self.transaction),
            RequestRecord,
            statement,
            [caller],
            fetch_all
        );
        rows.map_err(|e| self.backend.explain(&e))?.into_iter().map(stored).collect()
    }

    /// Reads the generation, after the locks. Fails if the database may lack transactions.
    async fn check(&mut self, seen: SeenState) -> Result<(), LedgerFailure> {
        let state = self.transaction.state().await.map_err(|e| self.backend.explain(&e))?;
        if state.is_lossy(seen) {
            return Err(LedgerFailure::Lost);
        }
        self.generation = i64::try_from(state.generation.number).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Whether the database may lack later steps of a request.
    fn is_lost(&self, stored: &Stored) -> bool {
        stored.generation < self.generation
    }

    /// The end of a request by the loss of transactions or by a time limit.
    fn overdue(&self, stored: &Stored, now: Timestamp) -> Option<Changed> {
        let request = &stored.request;
        if self.is_lost(stored) { request.recover(now) } else { request.advance(now) }
    }

    async fn grants(&mut self, caller: &str) -> Result<Vec<StandingGrant>, Error> {
        let rows: Result<Vec<DocumentRecord>, _> = run!(
            LedgerTransaction(&mut self.transaction),
            DocumentRecord,
            sql::GRANTS_OF_CALLER,
            [caller],
            fetch_all
        );
        rows.map_err(|e| self.backend.explain(&e))?.into_iter().map(grant).collect()
    }

    /// Whether there was a grant.
    async fn delete_grant(&mut self, origin: RequestId) -> Result<bool, Error> {
        let origin = origin.to_string();
        let rows: Result<Vec<DocumentRecord>, _> = run!(
            LedgerTransaction(&mut self.transaction),
            DocumentRecord,
            sql::DELETE_GRANT,
            [origin.as_str()],
            fetch_all
        );
        Ok(!rows.map_err(|e| self.backend.explain(&e))?.is_empty())
    }

    /// Counts the requests that make no room.
    async fn count_kept(&mut self, now: Timestamp) -> Result<usize, Error> {
        let row = run!(
            LedgerTransaction(&mut self.transaction),
            CountRecord,
            sql::COUNT_KEPT,
            [SqlTimestamp(now)],
            fetch_one
        );
        let CountRecord { count } = row.map_err(|e| self.backend.explain(&e))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Deletes ended requests of the caller, and the oldest ended ones of all callers, so that one more fits.
    async fn make_room(&mut self, displaced: &[RequestId], now: Timestamp) -> Result<(), Error> {
        for id in displaced {
            let id = id.to_string();
            let deleted = execute_in!(&mut self.transaction, sql::DELETE, [id.as_str()]);
            deleted.map_err(|e| self.backend.explain(&e))?;
        }
        let (now, most) = (SqlTimestamp(now), signed(STORED - 1));
        let room = execute_in!(&mut self.transaction, sql::MAKE_ROOM, [now, most]);
        room.map_err(|e| self.backend.explain(&e))
    }

    async fn insert(&mut self, request: &Request, step: &Transition) -> Result<(), Error> {
        let columns = Columns::of(request)?;
        let caller = request.binding.caller.key().to_string();
        let key = request.key().to_string();
        let inserted = execute_in!(
            &mut self.transaction,
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
                self.generation,
            ]
        );
        inserted.map_err(|e| self.backend.explain(&e))?;
        self.insert_step(&columns, step).await
    }

    /// Replaces a locked request, and stores its step, its new round and its standing grant.
    async fn replace(&mut self, old: &Request, changed: &Changed) -> Result<(), Error> {
        let request = &changed.request;
        let columns = Columns::of(request)?;
        let updated = execute_in!(
            &mut self.transaction,
            sql::UPDATE,
            [
                columns.id.as_str(),
                request.state.as_str(),
                columns.revision,
                columns.due_at,
                columns.ended_at,
                columns.room_at,
                columns.document.as_str(),
                self.generation,
            ]
        );
        updated.map_err(|e| self.backend.explain(&e))?;
        self.insert_step(&columns, &changed.transition).await?;
        for used in request.uses.iter().skip(old.uses.len()) {
            let attempt = used.attempt.to_string();
            let (round, gateway) = (i64::from(used.round), used.gateway.as_str());
            let inserted = execute_in!(
                &mut self.transaction,
                sql::INSERT_ROUND,
                [columns.id.as_str(), round, gateway, attempt.as_str()]
            );
            inserted.map_err(|e| self.backend.explain(&e))?;
        }
        match request.standing_grant() {
            Some(grant) => self.insert_grant(&grant).await,
            None => Ok(()),
        }
    }

    async fn insert_step(&mut self, columns: &Columns, step: &Transition) -> Result<(), Error> {
        let document = encode(step)?;
        let inserted = execute_in!(
            &mut self.transaction,
            sql::INSERT_STEP,
            [columns.id.as_str(), columns.revision, document.as_str()]
        );
        inserted.map_err(|e| self.backend.explain(&e))
    }

    async fn insert_grant(&mut self, grant: &StandingGrant) -> Result<(), Error> {
        let origin = grant.origin.to_string();
        let caller = grant.binding.caller.key().to_string();
        let (ends_at, document) = (SqlTimestamp(grant.ends_at), encode(grant)?);
        let inserted = execute_in!(
            &mut self.transaction,
            sql::INSERT_GRANT,
            [origin.as_str(), caller.as_str(), ends_at, document.as_str(), self.generation]
        );
        inserted.map_err(|e| self.backend.explain(&e))
    }
}

async fn find(backend: &Backend, id: RequestId) -> Result<Option<Request>, Error> {
    let id = id.to_string();
    let row = run!(Backend(backend), RequestRecord, sql::FIND, [id.as_str()], fetch_optional);
    let found = row.map_err(|e| backend.explain(&e))?.map(stored).transpose()?;
    Ok(found.map(|stored| stored.request))
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
    let rows = rows.map_err(|e| backend.explain(&e))?.into_iter();
    rows.map(|row| Ok(stored(row)?.request)).collect()
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

async fn all_grants(backend: &Backend, query: GrantQuery) -> Result<Vec<StandingGrant>, Error> {
    let after = query.after.map(|id| id.to_string()).unwrap_or_default();
    let rows: Result<Vec<DocumentRecord>, _> = run!(
        Backend(backend),
        DocumentRecord,
        sql::LIST_GRANTS,
        [after.as_str(), SqlTimestamp(query.now), signed(query.limit)],
        fetch_all
    );
    rows.map_err(|e| backend.explain(&e))?.into_iter().map(grant).collect()
}

async fn find_grant(backend: &Backend, origin: RequestId) -> Result<Option<StandingGrant>, Error> {
    let origin = origin.to_string();
    let row: Result<Option<DocumentRecord>, _> =
        run!(Backend(backend), DocumentRecord, sql::FIND_GRANT, [origin.as_str()], fetch_optional);
    row.map_err(|e| backend.explain(&e))?.map(grant).transpose()
}

async fn known_key(backend: &Backend, ours: &str) -> Result<String, Error> {
    if let Some(known) = read_key(backend).await? {
        return Ok(known);
    }
    // With several servers, the first one stores its key.
    execute!(backend, sql::FIRST_KEY, [ours])?;
    Ok(read_key(backend).await?.unwrap_or_else(|| ours.to_owned()))
}

async fn read_key(backend: &Backend) -> Result<Option<String>, Error> {
    let row: Result<Option<KeyRecord>, _> =
        run!(Backend(backend), KeyRecord, sql::KEY, [], fetch_optional);
    Ok(row.map_err(|e| backend.explain(&e))?.map(|row| row.fingerprint))
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
    execute!(backend, sql::DELETE_GRANTS, [SqlTimestamp(now)])?;
    match backend {
        Backend::Sqlite(store) => store.empty_journal().await.map_err(|e| backend.explain(&e)),
        Backend::Postgres(_) => Ok(()),
    }
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

fn stored(row: RequestRecord) -> Result<Stored, Error> {
    let RequestRecord { document, preview, generation } = row;
    let request: Request = decode("an approval request", &document)?;
    Ok(Stored { request: Request { preview, ..request }, generation })
}

fn grant(DocumentRecord { document }: DocumentRecord) -> Result<StandingGrant, Error> {
    decode("a standing grant", &document)
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
