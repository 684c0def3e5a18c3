//! Tests of the search index.

use std::sync::Arc;

use registry_core::{
    Action, Catalog, Change, Commit, Document, Key, Kind, LifecycleState, Notice, RegistryId,
    SealedCommit,
};
use serde_json::{Value, json};

use super::{Field, Index, Query, ResultPage, Total, Versions};
use crate::limits;

fn catalog(tools: &[Value]) -> Catalog {
    let mut catalog = Catalog::empty(RegistryId::new("test"));
    let parse = |tool: &Value| Arc::new(Document::parse(Kind::Tool, tool).unwrap());
    let documents: Vec<_> = tools.iter().map(parse).collect();
    let register = |document: &Arc<Document>| Change {
        key: document.key().clone(),
        action: Action::register(document.digest()),
    };
    let changes = documents.iter().map(register).collect();
    commit(&mut catalog, changes, documents);
    catalog
}

fn commit(catalog: &mut Catalog, changes: Vec<Change>, documents: Vec<Arc<Document>>) {
    let revision = catalog.revision().next();
    let commit = Commit { revision, author: "ada".to_owned(), changes, ..Commit::default() };
    catalog.apply(&SealedCommit::seal(&catalog.chain(), commit, documents).unwrap()).unwrap();
}

fn change(catalog: &mut Catalog, key: &str, action: Action) {
    let key: Key = key.parse().unwrap();
    commit(catalog, vec![Change { key, action }], Vec::new());
}

fn tool(name: &str, version: &str, description: &str) -> Value {
    json!({
        "name": name, "version": version, "description": description,
        "spec": { "schemaMap": { "mappings": { "x": { "path": "$" } } } },
    })
}

fn search(index: &Index, text: &str) -> ResultPage {
    index.search(&Query { text: text.to_owned(), ..Query::default() }, None, 100)
}

fn found(index: &Index, query: &Query) -> Vec<String> {
    let hits = index.search(query, None, 100).hits;
    hits.iter().map(|hit| hit.record.document.key().to_string()).collect()
}

fn names(index: &Index, text: &str) -> Vec<String> {
    let hits = search(index, text).hits;
    hits.iter().map(|hit| hit.record.document.key().name.to_string()).collect()
}

#[test]
fn policy_is_found_by_its_selectors() {
    let policy = json!({
        "name": "spending", "version": "1.0.0", "description": "Large charges are forbidden",
        "appliesTo": { "callers": ["tag:prod"], "tools": ["payment_charge"], "servers": ["bank*"] },
    });
    let document = Arc::new(Document::parse(Kind::Policy, &policy).unwrap());
    let mut catalog = Catalog::empty(RegistryId::new("test"));
    let action = Action::register(document.digest());
    let change = Change { key: document.key().clone(), action };
    commit(&mut catalog, vec![change], vec![document]);
    let index = Index::build(&catalog);
    for text in ["spending", "forbidden", "payment_charge", "payment", "bank", "prod", "policy"] {
        assert_eq!(names(&index, text), ["spending"], "{text}");
    }
    assert!(names(&index, "mail").is_empty());
}

#[test]
fn newest_version_in_best_state_represents_name() {
    let versions = ["1.0.0", "1.1.0", "2.0.0-rc.1"].map(|version| tool("fetch", version, "gets"));
    let mut catalog = catalog(&versions);
    let mut index = Index::build(&catalog);
    let mut newest = |action: Option<(&str, Action)>, lifecycle: &[LifecycleState]| {
        if let Some((key, action)) = action {
            change(&mut catalog, key, action);
            index.advance(&catalog);
        }
        let (text, lifecycle) = ("fetch".to_owned(), lifecycle.to_vec());
        found(&index, &Query { text, lifecycle, ..Query::default() })
    };
    let deprecate = || Action::Deprecate(Notice::default());
    assert_eq!(newest(None, &[]), ["tool/fetch@1.1.0"], "a release ranks above pre-releases");
    assert_eq!(newest(Some(("tool/fetch@1.1.0", deprecate())), &[]), ["tool/fetch@1.0.0"]);
    assert_eq!(newest(None, &[LifecycleState::Deprecated]), ["tool/fetch@1.1.0"]);
    assert_eq!(newest(Some(("tool/fetch@1.0.0", deprecate())), &[]), ["tool/fetch@2.0.0-rc.1"]);
    assert_eq!(newest(Some(("tool/fetch@2.0.0-rc.1", deprecate())), &[]), ["tool/fetch@1.1.0"]);
    let retire = Action::Retire(Notice::default());
    assert_eq!(newest(Some(("tool/fetch@1.1.0", retire)), &[]), ["tool/fetch@1.0.0"]);
    let both = [LifecycleState::Retired, LifecycleState::Deprecated];
    assert_eq!(newest(None, &both), ["tool/fetch@1.0.0"]);
    assert_eq!(newest(None, &[LifecycleState::Active]), [""; 0]);
    let (text, versions) = ("fetch".to_owned(), Versions::All);
    assert_eq!(found(&index, &Query { text, versions, ..Query::default() }).len(), 2);
}

#[test]
fn words_match_by_part_prefix_and_fuzzily() {
    let index = Index::build(&catalog(&[
        tool("readCalendarEvents", "1.0.0", "Lists the events of a day"),
        tool("roll_back", "1.0.0", "Undoes release 2024"),
        tool("weather", "1.0.0", "Forecasts rain"),
    ]));
    for near in ["calender", "claendar", "kalendar", "calendars", "readcalendar", "CALENDAR", "cal"]
    {
        assert_eq!(names(&index, near), ["readCalendarEvents"], "{near}");
    }
    for near in ["rollback", "roll back", "ROLL-BACK", "releases", "2024", "roll", "relaese"] {
        assert_eq!(names(&index, near), ["roll_back"], "{near}");
    }
    for far in ["2025", "rno", "roq", "clander2", "the of a", "…", "zzzzzzzzzzzz"] {
        assert_eq!(names(&index, far), [""; 0], "{far}");
    }
    // An exact match excludes fuzzy ones, and a completed word is not a prefix.
    assert_eq!(names(&index, "rain"), ["weather"]);
    assert_eq!(names(&index, "r").len(), 3);
    assert_eq!(names(&index, "back roll "), ["roll_back"]);
}

#[test]
fn prefix_match_is_complete_or_total_is_lower_bound() {
    let of = |count: usize| {
        let tools: Vec<_> = (0..count).map(|i| tool(&format!("zeta{i:04}"), "1.0.0", "")).collect();
        search(&Index::build(&catalog(&tools)), "zeta").total
    };
    assert_eq!(of(200), Total::Exactly(200));
    let most = limits::SEARCH_BEGINNINGS;
    assert_eq!(of(most + 1), Total::AtLeast(most));
}

#[test]
fn match_of_all_words_ranks_first() {
    let index = Index::build(&catalog(&[
        tool("invoice", "1.0.0", "invoice invoice invoice"),
        tool("book", "1.0.0", "cancels an invoice"),
        tool("cancel", "1.0.0", "cancels anything"),
    ]));
    assert_eq!(names(&index, "cancel invoice")[0], "book");
}

#[test]
fn highlights_report_field_and_ranges() {
    let mut value = tool("send_mail", "1.0.0", "Sends a mail to somebody");
    value["metadata"] = json!({ "tags": ["chat", "Mails"] });
    value["inputSchema"] = json!({ "properties": { "mailBody": { "description": "as text" } } });
    let found = search(&Index::build(&catalog(&[value])), "mail");
    let shown = found.hits[0].highlights.iter().map(|highlight| {
        let marked: Vec<_> = highlight.ranges.iter().map(|r| &highlight.text[r.clone()]).collect();
        (highlight.field, marked.join(" "))
    });
    let expected = [
        (Field::Name, "mail"),
        (Field::Tag, "Mails"),
        (Field::Description, "mail"),
        // The last word is also matched as a prefix.
        (Field::Property, "mailBody"),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected.map(|(field, text)| (field, text.to_owned())));
}

#[test]
fn hostile_queries_are_limited() {
    let tools: Vec<_> = (0..300)
        .map(|i| tool(&format!("t{i}"), "1.0.0", &format!("word{i} w{} common text", i % 7)))
        .collect();
    let index = Index::build(&catalog(&tools));
    let first: Vec<_> = (0..limits::SEARCH_WORDS).map(|i| format!("none{i}x")).collect();
    let late = format!("{} common", first.join(" "));
    assert_eq!(search(&index, &late).total, Total::Exactly(0), "the words after the last");
    for hostile in [
        "w ".repeat(10_000),
        "common ".repeat(10_000),
        "x".repeat(100_000),
        "common".repeat(1_000),
        "\u{1F468}\u{200D}\u{1F469}\u{300}\u{0}\u{FFFD}".repeat(1_000),
        ('a'..='z').flat_map(|c| [c, ' ']).collect(),
        "_-.".repeat(3_000) + "w",
    ] {
        let found = search(&index, &hostile);
        assert!(found.hits.len() <= 100);
    }
    // A document with too many words is found only by the first ones.
    let many = (0..1_200).map(|i| format!("q{i}")).collect::<Vec<_>>().join(" ");
    let mut big = tool("big", "1.0.0", &many);
    let properties =
        (0..3_000).map(|i| (format!("p{i}"), json!({}))).collect::<serde_json::Map<_, _>>();
    big["inputSchema"] = json!({ "properties": properties });
    let index = Index::build(&catalog(&[big]));
    assert!(index.size().1 <= limits::SEARCH_TERMS + 1);
    assert_eq!((names(&index, "q1199 ").len(), names(&index, "p2999 ").len()), (1, 0));
}
