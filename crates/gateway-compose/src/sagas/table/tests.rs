//! The table: lookups, eviction, limits, and recovery from a journal.

use std::borrow::Cow;

use gateway_policy::CallerIdentity;
use registry_core::{
    Revision,
    spec::{Composition, SagaStep, Spec},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    usage::{MAX_OPEN, MAX_OPEN_BYTES},
    *,
};
use crate::history::StepOutcome;

fn began(instance: Option<&str>) -> SagaStart {
    SagaStart {
        tool: "tool/t@1.0.0".parse().unwrap(),
        pointer: "/saga".to_owned(),
        instance: instance.map(str::to_owned),
        parent: None,
        identity: CallerIdentity::Anonymous,
        quota_key: None,
        revision: Revision(1),
        input: json!({ "secret": 1 }),
    }
}

fn open(table: &SagaTable) -> Usage {
    Usage::total(table.usage.values())
}

/// The length of the first line of a saga, in bytes.
const LINE: usize = 100;

fn begin(table: &mut SagaTable, began: SagaStart) -> Box<str> {
    let id: Box<str> = Uuid::now_v7().to_string().into();
    table.begin(id.clone(), began, (LINE, now_ms()));
    id
}

fn step_of(step: &Value) -> SagaStep {
    let composition = Composition::parse(&json!({ "saga": { "steps": [step] } })).unwrap();
    let Spec::Saga(saga) = composition.spec else { panic!("a saga") };
    saga.steps[0].clone()
}

fn end(status: SagaStatus, output: Option<Value>) -> Event {
    let steps = Vec::<StepOutcome>::new();
    Event::Ended(SagaEnd { status, failed_step: None, error: None, steps, output })
}

fn ended(
    table: &mut SagaTable,
    instance: Option<&str>,
    status: SagaStatus,
    output: Option<Value>,
) -> Box<str> {
    let id = begin(table, began(instance));
    table.apply(&id, &Event::ActionStarted { step: 0, input: json!("given") }, (50, 7)).unwrap();
    table.apply(&id, &end(status, output), (70, now_ms())).unwrap();
    table.mark_settled(&id);
    id
}

/// Adds a saga whose result takes a quarter of the capacity.
fn quarter(table: &mut SagaTable, instance: &str) {
    let id = ended(table, Some(instance), SagaStatus::Completed, Some(json!("out")));
    let known = table.sagas.get_mut(&id).unwrap();
    assert_eq!(known.last_bytes, 70);
    table.bytes += MAX_BYTES / 4 - known.last_bytes;
    known.last_bytes = MAX_BYTES / 4;
}

#[test]
fn settled_saga_keeps_result_only() {
    let mut table = SagaTable::default();
    let done = ended(&mut table, Some("1"), SagaStatus::Completed, Some(json!("out")));
    let stuck = ended(&mut table, Some("2"), SagaStatus::CompensationFailed, None);
    let text = |id: &str| serde_json::to_string(&table.get(id).unwrap().history).unwrap();
    assert!(text(&done).contains("out"));
    assert!(!text(&done).contains("given") && !text(&done).contains("secret"));
    assert!(text(&stuck).contains("given") && text(&stuck).contains("secret"));
    assert_eq!(open(&table).count, 1);
}

#[test]
fn only_compensated_saga_frees_its_id() {
    let mut table = SagaTable::default();
    for (id, status) in [
        ("\"done\"", SagaStatus::Completed),
        ("\"stuck\"", SagaStatus::CompensationFailed),
        ("\"undone\"", SagaStatus::Compensated),
    ] {
        ended(&mut table, Some(id), status, None);
    }
    let is_known = |id: &str| table.find(&began(Some(id))).is_some();
    assert!(is_known("\"done\"") && is_known("\"stuck\""));
    assert!(!is_known("\"undone\"") && !is_known("\"other\""));
    let mut other = began(Some("\"done\""));
    other.pointer = "/pipeline/steps/0/operation/pattern/saga".to_owned();
    assert!(table.find(&other).is_none(), "each saga of a spec has its own ids");
    other = SagaStart { tool: "tool/t@2.0.0".parse().unwrap(), ..began(Some("\"done\"")) };
    assert!(table.find(&other).is_some(), "versions share ids");
}

#[test]
fn oldest_sagas_are_evicted_by_count_size_age() {
    let mut table = SagaTable::default();
    let stuck = ended(&mut table, None, SagaStatus::CompensationFailed, None);
    for _ in 0..MAX_WITHOUT_ID + 5 {
        ended(&mut table, None, SagaStatus::Completed, None);
    }
    begin(&mut table, began(None));
    assert_eq!(table.without_id.len(), MAX_WITHOUT_ID);
    for instance in ["11", "12", "13", "14"] {
        quarter(&mut table, instance);
    }
    begin(&mut table, began(None));
    let is_known = |table: &SagaTable, id: &str| table.find(&began(Some(id))).is_some();
    assert!(is_known(&table, "11") && table.bytes == MAX_BYTES);
    quarter(&mut table, "15");
    begin(&mut table, began(None));
    assert!(!is_known(&table, "11") && is_known(&table, "12") && is_known(&table, "15"));
    assert_eq!((table.bytes, table.by_instance.len()), (MAX_BYTES, 4));
    let age = |table: &mut SagaTable, ms: i64| table.sagas.values_mut().for_each(|k| k.at_ms -= ms);
    let week_ms = 7 * 86_400_000;
    age(&mut table, week_ms - 60_000);
    begin(&mut table, began(None));
    assert!(is_known(&table, "15"));
    age(&mut table, 60_001);
    begin(&mut table, began(None));
    assert!(!is_known(&table, "15"), "older than a week");
    assert!(table.get(&stuck).is_some(), "failed compensations are never evicted");
    assert_eq!(table.bytes, 0);
}

#[test]
fn oldest_saga_is_evicted_beyond_limit() {
    let mut table = SagaTable::default();
    let first = ended(&mut table, Some("1"), SagaStatus::Completed, None);
    // These ids sort after all others.
    table.settled.extend((1..100_000).map(|number| format!("z{number}").into()));
    begin(&mut table, began(None));
    assert!(table.get(&first).is_some());
    table.settled.insert("z".into());
    begin(&mut table, began(None));
    assert!(table.get(&first).is_none());
}

#[test]
fn evicting_earlier_saga_keeps_reused_id() {
    let mut table = SagaTable::default();
    let first = ended(&mut table, Some("1"), SagaStatus::Compensated, None);
    let second = ended(&mut table, Some("1"), SagaStatus::Completed, None);
    table.sagas.get_mut(&first).unwrap().at_ms = 0;
    begin(&mut table, began(None));
    assert!(table.get(&first).is_none() && table.get(&second).is_some());
    assert!(table.find(&began(Some("1"))).is_some());
}

fn of_caller(who: &str) -> SagaStart {
    SagaStart { quota_key: Some(who.into()), ..began(None) }
}

/// The scope of the reached limit; `None` if the start is admitted.
fn refused(table: &SagaTable, began: &SagaStart) -> Option<&'static str> {
    match table.check_room(began) {
        Ok(()) => None,
        Err(Cause::TooManySagas { whose }) => Some(whose),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn open_sagas_are_limited_per_caller() {
    let mut table = SagaTable::default();
    let ids: Vec<_> = (1..MAX_OPEN / 4).map(|_| begin(&mut table, of_caller("greedy"))).collect();
    assert_eq!(refused(&table, &of_caller("greedy")), None);
    let last = begin(&mut table, of_caller("greedy"));
    assert_eq!(refused(&table, &of_caller("greedy")), Some(" of this caller"));
    let inside = SagaStart { parent: Some(last.clone()), ..of_caller("greedy") };
    assert_eq!(refused(&table, &inside), None, "inner sagas are admitted");
    assert_eq!(refused(&table, &of_caller("other")), None);
    assert_eq!(refused(&table, &began(None)), None);
    table.apply(&last, &end(SagaStatus::Completed, None), (10, 1)).unwrap();
    assert_eq!(refused(&table, &of_caller("greedy")), None);
    // Inner sagas do not count: each caller uses at most a quarter.
    let full = Usage { count: MAX_OPEN, bytes: 0 };
    for who in ["b", "c"] {
        table.usage.insert(Some(who.into()), full);
    }
    assert_eq!(refused(&table, &of_caller("other")), None);
    begin(&mut table, of_caller("greedy"));
    table.usage.insert(Some("d".into()), full);
    assert_eq!(refused(&table, &of_caller("other")), Some(""));
    table.usage.retain(|who, _| who.as_deref() == Some("greedy"));
    for id in ids {
        table.apply(&id, &end(SagaStatus::Completed, None), (10, 1)).unwrap();
    }
    assert_eq!(table.usage.values().map(|held| held.count).sum::<usize>(), 1, "the last saga");
}

#[test]
fn open_sagas_are_limited_by_size() {
    let mut table = SagaTable::default();
    let id = begin(&mut table, began(None));
    table.apply(&id, &Event::ActionStarted { step: 0, input: json!("in") }, (17, 1)).unwrap();
    // Repeated compensation attempts do not add to the size.
    for _ in 0..3 {
        table
            .apply(&id, &Event::CompensationStarted { step: 0, input: json!("in") }, (17, 1))
            .unwrap();
        table
            .apply(&id, &Event::CompensationFailed { step: 0, error: json!("no") }, (19, 1))
            .unwrap();
        table.apply(&id, &end(SagaStatus::CompensationFailed, None), (23, 1)).unwrap();
        assert_eq!((open(&table).bytes, table.bytes), (LINE + 17 + 19, 0));
        table.apply(&id, &Event::RetryRequested, (11, 1)).unwrap();
    }
    let more = MAX_OPEN_BYTES / 4 - 1 - open(&table).bytes;
    table.apply(&id, &Event::ActionCompleted { step: 0, result: json!("out") }, (more, 1)).unwrap();
    assert_eq!(refused(&table, &began(None)), None);
    let other = begin(&mut table, began(None));
    assert_eq!(refused(&table, &began(None)), Some(" of this caller"));
    assert_eq!(refused(&table, &of_caller("other")), None);
    let full = Usage { count: 1, bytes: MAX_OPEN_BYTES };
    for who in ["a", "b"] {
        table.usage.insert(Some(who.into()), full);
    }
    assert_eq!(refused(&table, &of_caller("other")), None);
    table.usage.insert(Some("c".into()), full);
    assert_eq!(refused(&table, &of_caller("other")), Some(""));
    table.usage.retain(|who, _| who.is_none());
    table.apply(&id, &end(SagaStatus::Compensated, None), (29, 1)).unwrap();
    assert_eq!((open(&table).bytes, table.bytes), (LINE, 29));
    // Sagas recovered from a journal count too.
    let history = (*table.get(&other).unwrap().history).clone();
    table.insert("kept".into(), history, (31, 1));
    assert_eq!(open(&table), Usage { count: 2, bytes: LINE + 31 });
}

#[test]
fn inner_sagas_are_running_children() {
    let mut table = SagaTable::default();
    let outer = begin(&mut table, began(None));
    let inside = SagaStart { parent: Some(outer.clone()), ..began(None) };
    let inner = begin(&mut table, inside.clone());
    let over = begin(&mut table, inside);
    table.apply(&over, &end(SagaStatus::Compensated, None), (10, 1)).unwrap();
    begin(&mut table, began(None));
    let found = table.children(&outer);
    assert_eq!(found.len(), 1);
    table.apply(&inner, &end(SagaStatus::Compensated, None), (10, 1)).unwrap();
    table.get(&inner).unwrap().notify();
    assert!(found[0].borrow().is_some());
    assert!(table.children(&outer).is_empty());
}

#[test]
fn concurrent_retry_is_rejected() {
    let mut table = SagaTable::default();
    let id = ended(&mut table, None, SagaStatus::CompensationFailed, None);
    assert_eq!(table.claim(&id).unwrap().status(), "compensation_failed");
    assert!(matches!(table.claim(&id), Err(RetryError::UnderWay(_))));
    let done = ended(&mut table, None, SagaStatus::Compensated, None);
    assert!(matches!(table.claim(&done), Err(RetryError::Settled(_))));
    assert!(matches!(table.claim("none"), Err(RetryError::Unknown(_))));
}

#[test]
fn open_sagas_are_listed_first() {
    let mut table = SagaTable::default();
    let ids = [SagaStatus::CompensationFailed, SagaStatus::Completed, SagaStatus::Compensated]
        .map(|status| ended(&mut table, None, status, None));
    let running = begin(&mut table, began(None));
    let listed: Vec<_> = table.by_urgency().map(|(id, _)| id).collect();
    let [stuck, completed, undone] = &ids;
    assert_eq!(listed, [&running, stuck, undone, completed].map(|id| &**id));
}

#[test]
fn step_before_a_started_step_is_completed() {
    let step: SagaStep = step_of(&json!({ "id": "s", "name": "s", "action": { "tool": "t" },
        "compensate": { "tool": "u" } }));
    let mut history = History::new(began(None));
    history.apply(&Event::ActionStarted { step: 1, input: json!(1) });
    history.apply(&Event::ActionStarted { step: 2, input: json!(1) });
    assert_eq!(history.running_step(), Some(2));
    let undone = [0, 1, 2, 3].map(|number| history.needs_compensation(number, &step));
    assert_eq!(undone, [true, true, false, false]);
}

#[test]
fn journal_restores_the_table() {
    let line = |saga: &'static str, what| (Entry { saga: saga.into(), at_ms: 1, what }, 10);
    let begins = || line("s", EntryKind::Started(Cow::Owned(began(Some("1")))));
    let event = |saga, event| line(saga, EntryKind::Event(Cow::Owned(event)));
    let entries = vec![
        begins(),
        event("s", Event::ActionStarted { step: 0, input: json!(1) }),
        event("s", Event::ActionCompleted { step: 0, result: json!(2) }),
        // A rewrite in between, followed by the first line again.
        begins(),
        event("s", Event::ActionStarted { step: 1, input: json!(3) }),
        event("lost", Event::RetryRequested),
    ];
    let mut found = JournalContent::default();
    (found.entries, found.damaged) = (entries, vec![9]);
    let table = SagaTable::from_journal(found);
    let history = &table.get("s").unwrap().history;
    assert_eq!((history.result(0), history.running_step()), (Some(&json!(2)), Some(1)));
    assert_eq!((table.damaged, open(&table).count, open(&table).bytes), (2, 1, 40));
    assert!(table.find(&began(Some("1"))).is_some());
}

#[test]
fn saga_with_damaged_last_line_needs_operator() {
    let line = |saga: &'static str, what| (Entry { saga: saga.into(), at_ms: 1, what }, 10);
    let begins = |saga, instance| line(saga, EntryKind::Started(Cow::Owned(began(Some(instance)))));
    let mut found = JournalContent::default();
    found.entries = vec![begins("1", "a"), begins("2", "b"), begins("3", "c")];
    let acting = Event::ActionStarted { step: 0, input: json!(1) };
    found.entries.push(line("2", EntryKind::Event(Cow::Owned(acting))));
    (found.damaged, found.doubtful) = (vec![3], 2);
    let table = SagaTable::from_journal(found);
    let status = |id: &str| table.get(id).unwrap().history.status();
    assert_eq!(["1", "2", "3"].map(status), ["compensation_failed", "running", "running"]);
    assert!(table.find(&began(Some("a"))).is_some(), "the saga id is in use");
    assert_eq!(open(&table).count, 3);
}

#[test]
fn running_step_is_started_without_outcome() {
    let mut history = History::new(began(None));
    assert_eq!(history.running_step(), None);
    for step in 0..2 {
        history.apply(&Event::ActionStarted { step, input: json!(1) });
        assert_eq!(history.running_step(), Some(step));
        history.apply(&Event::ActionCompleted { step, result: json!(2) });
        assert_eq!(history.running_step(), None);
    }
}
