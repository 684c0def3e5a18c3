//! Properties of the conversions: they are lossless, never panic, and reject forged proofs.

mod generate;
mod hostile;
mod proofs;

use proptest::prelude::*;
use prost::Message as _;
use registry_core::{
    Diagnostic, Document, Key, LifecycleState, Notice, Timestamp, follower::Nack, rules::Proposed,
};

use super::*;
use crate::v1;

fn on_the_wire(entity: &v1::Entity) -> v1::Entity {
    v1::Entity::decode(entity.encode_to_vec().as_slice()).unwrap()
}

proptest! {
    #[test]
    fn entity_keeps_its_digest_on_the_wire(document in generate::document()) {
        let message = on_the_wire(&document.entity().into());
        let back = super::document(message).unwrap();
        prop_assert_eq!(back.digest(), document.digest());
        prop_assert_eq!(back, document);
    }

    #[test]
    fn record_round_trips(record in generate::record()) {
        let message = record_with_document(&record);
        prop_assert_eq!(registry_core::Record::try_from(message).unwrap(), record);
    }

    #[test]
    fn snapshot_entity_round_trips(record in generate::record()) {
        let message = v1::SnapshotEntity::from(&record);
        prop_assert_eq!(registry_core::Record::try_from(message).unwrap(), record);
    }

    #[test]
    fn timestamp_round_trips_in_milliseconds(millis in -62_135_596_800_000_i64..=253_402_300_799_999) {
        let time = Timestamp::from_millis(millis);
        prop_assert_eq!(read_timestamp(timestamp(time)), Ok(time));
    }
}

fn tool(input_schema: &str) -> v1::Entity {
    let source = v1::ToolSource {
        server: "documents".to_owned(),
        server_version: "1.0.0".to_owned(),
        tool: "find".to_owned(),
        ..Default::default()
    };
    let tool = v1::Tool {
        name: "find".to_owned(),
        version: "1.0.0".to_owned(),
        implementation: Some(v1::tool::Implementation::Source(source)),
        input_schema: Some(input_schema.to_owned()),
        ..Default::default()
    };
    v1::Entity { kind: Some(v1::entity::Kind::Tool(tool)) }
}

fn messages(found: &[Diagnostic]) -> Vec<String> {
    found.iter().map(|found| format!("{} {}", found.pointer, found.message)).collect()
}

#[test]
fn invalid_json_text_has_its_pointer() {
    let found = document(tool("{\"type\": ")).unwrap_err();
    assert_eq!(
        messages(&found),
        [
            "/inputSchema `/inputSchema` is not valid JSON: EOF while parsing a value at line 1 column 9"
        ]
    );
    let found = document(tool(r#"{ "type": "string", "type": "object" }"#)).unwrap_err();
    insta::assert_snapshot!(
        found[0].message,
        @"`/inputSchema` is not valid JSON: `type` occurs twice in one object at line 1 column 26"
    );
    let found = document(tool("17")).unwrap_err();
    insta::assert_snapshot!(
        found[0].message,
        @"expected a JSON Schema (an object or a boolean), got the number 17"
    );
    assert!(document(tool("true")).is_ok());
}

#[test]
fn empty_entity_and_schema_are_rejected() {
    let found = document(v1::Entity { kind: None }).unwrap_err();
    insta::assert_snapshot!(
        found[0].message,
        @"the entity is empty: none of schema, server, tool, agent and policy is set"
    );
    let schema = v1::Schema { name: "A".into(), version: "1.0.0".into(), ..Default::default() };
    let found = document(v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) }).unwrap_err();
    assert_eq!(messages(&found), [" the required field `schema` is missing"]);
}

#[test]
fn invalid_policy_fields_are_rejected_at_their_pointer() {
    let window = |seconds, nanos| prost_types::Duration { seconds, nanos };
    let rate = |limit, window| v1::PolicyRate { limit, window, ..Default::default() };
    let valid = v1::Policy { name: "p".into(), version: "1.0.0".into(), ..Default::default() };
    let read = |policy| document(v1::Entity { kind: Some(v1::entity::Kind::Policy(policy)) });
    assert!(read(valid.clone()).is_ok());
    let stale = |time| v1::Policy { max_staleness: Some(time), ..valid.clone() };
    let limited = |rate| v1::Policy { rates: vec![rate], ..valid.clone() };
    let priced = |price| v1::Policy { price: Some(price), ..valid.clone() };
    let budgeted = |budget| v1::Policy { budgets: vec![budget], ..valid.clone() };
    let per_call = || v1::PolicyPrice { per_call: Some("1".into()), ..Default::default() };
    let length = |length| Some(v1::policy_budget::Window::Length(length));
    let budget = || v1::PolicyBudget {
        name: "b".into(),
        per: v1::PolicyBudgetScope::Agent.into(),
        limit: "10".into(),
        window: length(window(60, 0)),
        ..Default::default()
    };
    assert!(read(priced(per_call())).is_ok());
    assert!(read(budgeted(budget())).is_ok());
    let inspected = |results| {
        let inspection = v1::PolicyInspection { results, ..Default::default() };
        v1::Policy { inspection: Some(inspection), ..valid.clone() }
    };
    let demanding = |approval| v1::Policy { approval: Some(approval), ..valid.clone() };
    let approval = v1::PolicyApproval::default;
    assert!(read(demanding(approval())).is_ok());
    let rule = |class: v1::PolicyDataClass, action| v1::PolicyInspectionRule {
        data_class: class.into(),
        action,
    };
    let log = i32::from(v1::PolicyInspectionAction::Log);
    assert!(read(inspected(vec![rule(v1::PolicyDataClass::Contact, log)])).is_ok());
    let anchor = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
    let period = |number| Some(v1::policy_budget::Window::Period(number));
    for (policy, pointer) in vec![
        (v1::Policy { mode: 9, ..valid.clone() }, "/mode"),
        (v1::Policy { default: 9, ..valid.clone() }, "/default"),
        (stale(window(-1, 0)), "/maxStaleness"),
        (stale(window(1, 5)), "/maxStaleness"),
        (limited(rate(None, Some(window(1, 0)))), "/rates/0"),
        (limited(rate(Some(0), None)), "/rates/0"),
        (limited(rate(Some(1), Some(window(0, 0)))), "/rates/0/window"),
        (
            limited(v1::PolicyRate { reach: 9, ..rate(Some(1), Some(window(1, 0))) }),
            "/rates/0/reach",
        ),
        (priced(v1::PolicyPrice::default()), "/price"),
        (priced(v1::PolicyPrice { failures: 9, ..per_call() }), "/price/failures"),
        (priced(v1::PolicyPrice { per_call: Some("-1".into()), ..per_call() }), "/price/perCall"),
        (budgeted(v1::PolicyBudget { name: String::new(), ..budget() }), "/budgets/0/name"),
        (budgeted(v1::PolicyBudget { per: 0, ..budget() }), "/budgets/0/per"),
        (budgeted(v1::PolicyBudget { limit: String::new(), ..budget() }), "/budgets/0/limit"),
        (budgeted(v1::PolicyBudget { window: None, ..budget() }), "/budgets/0"),
        (budgeted(v1::PolicyBudget { window: period(0), ..budget() }), "/budgets/0/window"),
        (
            budgeted(v1::PolicyBudget { window: length(window(1, 5)), ..budget() }),
            "/budgets/0/window",
        ),
        (budgeted(v1::PolicyBudget { anchor: anchor(0, -1), ..budget() }), "/budgets/0/anchor"),
        (
            budgeted(v1::PolicyBudget { anchor: anchor(i64::MAX, 0), ..budget() }),
            "/budgets/0/anchor",
        ),
        (budgeted(v1::PolicyBudget { unpriced: 9, ..budget() }), "/budgets/0/unpriced"),
        (
            budgeted(v1::PolicyBudget { alert_at: vec![f64::NAN], ..budget() }),
            "/budgets/0/alertAt/0",
        ),
        (inspected(Vec::new()), "/inspection"),
        (inspected(vec![rule(v1::PolicyDataClass::Unspecified, log)]), "/inspection/results/0"),
        (inspected(vec![rule(v1::PolicyDataClass::Contact, 0)]), "/inspection/results/contact"),
        (
            inspected(vec![rule(v1::PolicyDataClass::Contact, log); 2]),
            "/inspection/results/contact",
        ),
        (demanding(v1::PolicyApproval { when: 9, ..approval() }), "/approval/when"),
        (demanding(v1::PolicyApproval { quorum: Some(0), ..approval() }), "/approval/quorum"),
        (
            demanding(v1::PolicyApproval { expires_after: Some(window(0, 1)), ..approval() }),
            "/approval/expiresAfter",
        ),
    ] {
        let found = read(policy).unwrap_err();
        assert_eq!(found[0].pointer, pointer, "{found:?}");
    }
}

#[test]
fn batch_reports_index_and_key_of_changes() {
    let change = |change| v1::EntityChange { change: Some(change), if_digest: None };
    let lifecycle = |key, state: v1::LifecycleState| {
        let message = v1::SetLifecycle { key, state: state.into(), ..Default::default() };
        change(v1::entity_change::Change::SetLifecycle(message))
    };
    let key: Key = "tool/find@1.0.0".parse().unwrap();
    let found = batch(vec![
        change(v1::entity_change::Change::RegisterEntity(tool("{}"))),
        v1::EntityChange::default(),
        change(v1::entity_change::Change::RegisterEntity(tool("nothing"))),
        lifecycle(None, v1::LifecycleState::Retired),
        lifecycle(Some((&key).into()), v1::LifecycleState::Unspecified),
    ])
    .unwrap_err()
    .diagnostics;
    let changes: Vec<_> = found.iter().map(|found| found.change.unwrap()).collect();
    assert_eq!(changes, [1, 2, 3, 4]);
    assert_eq!(found[0].entity, None);
    assert_eq!(found[1].entity.as_ref(), Some(&key));
    insta::assert_snapshot!(found[2].message, @"the key is missing");
    insta::assert_snapshot!(
        found[3].message,
        @"the lifecycle state is missing; set it to active, deprecated or retired"
    );
}

#[test]
fn subject_names_an_invalid_entity() {
    let invalid = |json: &str| {
        let document =
            v1::JsonDocument { kind: v1::EntityKind::Tool.into(), json: json.to_owned().into() };
        let change = v1::entity_change::Change::RegisterDocument(document);
        let change = v1::EntityChange { change: Some(change), if_digest: None };
        batch(vec![change]).unwrap_err().subject
    };
    assert_eq!(invalid(r#"{"name":"a \u202eb"}"#).as_deref(), Some(r#"tool "a \u{202e}b""#));
    assert_eq!(invalid("{"), None);
}

#[test]
fn precondition_is_a_digest_or_empty() {
    let with = |if_digest: Option<&str>| {
        let if_digest = if_digest.map(str::to_owned);
        precondition(&v1::EntityChange { change: None, if_digest })
    };
    let digest = registry_core::Digest::compute(b"a");
    assert_eq!(with(None).unwrap(), None);
    assert_eq!(with(Some("")).unwrap(), Some(None));
    assert_eq!(with(Some(&digest.to_string())).unwrap(), Some(Some(digest)));
    assert!(with(Some("sha256:1")).unwrap_err().to_string().starts_with("if_digest: "));
}

#[test]
fn change_round_trips() {
    let document = Document::clone(&document(tool("{}")).unwrap());
    let key = document.key().clone();
    let wanted = [
        Proposed::Register(document.into()),
        Proposed::SetLifecycle {
            key,
            state: LifecycleState::Deprecated,
            notice: Notice {
                replacement: Some("tool/find@2.0.0".parse().unwrap()),
                sunset_date: Some("2026-12-31".parse().unwrap()),
                ..Notice::with_message(Some("use 2.0.0"))
            },
        },
    ];
    let sent = wanted.iter().map(v1::EntityChange::from).collect();
    assert_eq!(batch(sent).unwrap(), wanted);
}

#[test]
fn diagnostic_and_nack_round_trip() {
    let found = document(tool("17")).unwrap_err().remove(0);
    let found = found.for_change(3, &"tool/find@1.0.0".parse().unwrap());
    assert_eq!(Diagnostic::try_from(v1::Diagnostic::from(&found)), Ok(found.clone()));
    let nack = Nack {
        revision: registry_core::Revision(7),
        message: "no".to_owned(),
        diagnostics: vec![found],
    };
    let mut message = v1::Nack::from(&nack);
    assert_eq!(Nack::try_from(message.clone()), Ok(nack));
    message.diagnostics[0].code = "made-up".to_owned();
    let error = Nack::try_from(message).unwrap_err().to_string();
    assert!(error.contains("finding 0") && error.contains("`made-up`"), "{error}");
}

#[test]
fn unknown_enum_numbers_are_rejected() {
    assert_eq!(kind(0), Err(InvalidKind::Unspecified));
    assert_eq!(filter_kind(0), Ok(None));
    assert_eq!(kind(9), Err(InvalidKind::Unknown(9)));
    assert_eq!(state(0), Err(InvalidState::Unspecified));
    assert_eq!(filter_states(&[1, -4]), Err(InvalidState::Unknown(-4)));
    let nanos = prost_types::Timestamp { seconds: 0, nanos: -1 };
    assert_eq!(read_timestamp(nanos), Err(InvalidTime::Nanos(-1)));
    let late = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
    assert_eq!(read_timestamp(late), Err(InvalidTime::Range(i64::MAX)));
}
