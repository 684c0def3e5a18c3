//! Past states, differences and blame, over gRPC and the command line, on both databases.

use std::time::Duration;

use acceptance::{Database, Registry, postgres};
use registry_proto::v1;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::concurrent_writers::pair;

/// One commit each, starting at revision 1.
const COMMITS: [&[&str]; 7] = [
    &["apply", "-f", "examples/registry-v2.json", "--yes", "--message", "the example"],
    &["apply", "-f", "examples/new-version.json", "--yes", "--message", "better search"],
    &[
        "deprecate",
        "--yes",
        "tool/get_webpage@1.0.0",
        "--message",
        "slow",
        "--sunset",
        "2027-01-31",
    ],
    &["transfer", "--yes", "tool/fetch", "web-team"],
    &["archive", "--yes", "schema/SearchQuery"],
    &["restore", "--yes", "tool/get_webpage@1.0.0"],
    &["unarchive", "--yes", "schema/SearchQuery"],
];

/// Separates an export from its signature, which only the latest state has.
fn unsigned(export: &str) -> (String, Option<&str>) {
    let Some((before, rest)) = export.split_once(",\n\"attestation\":") else {
        return (export.to_owned(), None);
    };
    let (signature, rest) = rest.split_once('}').expect("the end of the signature");
    (format!("{before}{rest}"), Some(signature))
}

/// A registry with all commits, on each database.
async fn filled() -> Vec<(Database, Registry)> {
    let start = |database: Database| {
        let registry = Registry::start_on(&database.url());
        for commit in COMMITS {
            registry.run(commit);
        }
        (database, registry)
    };
    Database::both().await.map(start).into()
}

#[tokio::test]
async fn past_export_equals_original_export() {
    for database in Database::both().await {
        let mut registry = Registry::start_on(&database.url());
        let everything = |registry: &Registry, at: &[&str]| {
            [&["export"][..], &["export", "--plain"]].map(|form| registry.run(&[form, at].concat()))
        };
        let latest = |registry: &Registry| {
            let [export, plain] = everything(registry, &[]);
            let (export, signature) = unsigned(&export);
            assert!(signature.is_some(), "{export}");
            [export, plain]
        };
        let mut then = vec![latest(&registry)];
        for commit in COMMITS {
            registry.run(commit);
            then.push(latest(&registry));
        }
        for restarted in [false, true] {
            for (revision, exported) in then.iter().enumerate() {
                let revision = revision.to_string();
                let again = everything(&registry, &["--at", &revision]);
                assert!(again == *exported, "revision {revision}, restarted: {restarted}");
                if revision != "0" {
                    let time = registry.json(&["show", &revision])["committedAt"].clone();
                    let time = time.as_str().expect("a time");
                    assert!(everything(&registry, &["--at", time]) == *exported, "{time}");
                }
            }
            registry.process.kill_9();
            registry.restart();
        }
        let file = format!("{}/registry.json", registry.url());
        let file = reqwest::get(file).await.expect("it answers").text().await.expect("a file");
        let (file, signature) = unsigned(&file);
        assert!(registry.run(&["export", "--at", "7"]) == file && signature.is_some());
        let ahead = registry.ctl(&["export", "--at", "8"]);
        assert!(ahead.code == 1 && ahead.has_code("REVISION_AHEAD"), "{ahead:?}");
        for read in [&["list"][..], &["export"], &["log"]] {
            let ahead = registry.ctl(&[read, &["--at", "9999-12-31"]].concat());
            assert!(ahead.code == 1 && ahead.has_code("TIME_AHEAD"), "{ahead:?}");
        }
    }
}

/// Action and subject of each difference.
fn outline(compared: &Value) -> Vec<String> {
    let differences = compared["differences"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |difference: &Value| {
        let what = text(&difference["entity"]) + &text(&difference["target"]);
        format!("{} {what}", text(&difference["change"]))
    };
    differences.iter().map(line).collect()
}

#[tokio::test]
async fn two_revisions_are_compared() {
    for (_database, registry) in filled().await {
        let compared = |points: &str| registry.json(&["diff", points]);
        let first = compared("1..2");
        assert_eq!((&first["from"], &first["to"]), (&Value::from(1), &Value::from(2)));
        let new = [
            "schema/SearchQuery@1.1.0",
            "server/document-service@1.3.0",
            "tool/search_documents@1.1.0",
            "agent/research-agent@2.2.0",
        ];
        assert_eq!(outline(&first), new.map(|key| format!("registered {key}")));
        let schema = &first["differences"][0];
        assert_eq!(schema["against"], "schema/SearchQuery@1.0.0");
        assert_eq!(schema["new"]["registeredRevision"], 2);
        let pointers: Vec<_> =
            schema["differences"].as_array().unwrap().iter().map(|d| &d["pointer"]).collect();
        assert_eq!(pointers, ["/description", "/schema/properties/minScore", "/version"]);

        let third = compared("2..3");
        assert_eq!(outline(&third), ["lifecycle tool/get_webpage@1.0.0"]);
        let lifecycle = &third["differences"][0]["new"]["lifecycle"];
        assert_eq!(
            (&lifecycle["state"], &lifecycle["message"]),
            (&"deprecated".into(), &"slow".into())
        );
        assert_eq!(third["differences"][0]["old"]["lifecycle"]["state"], "active");

        let both = compared("3..5");
        assert_eq!(outline(&both), ["settings schema/SearchQuery", "settings tool/fetch"]);
        assert_eq!(both["differences"][0]["new"]["archived"], true);
        let me = registry.json(&["show", "1"])["author"].clone();
        let owner = &both["differences"][1];
        assert_eq!((&owner["old"]["owner"], &owner["new"]["owner"]), (&me, &"web-team".into()));

        // Changes that were reverted are not differences.
        assert_eq!(outline(&compared("2..")), ["settings tool/fetch"]);
        assert_eq!(outline(&registry.json(&["diff", "4..7", "schema"])), [""; 0]);
        assert_eq!(outline(&compared("0..1")).len(), 77);
        assert_eq!(outline(&compared("..2")).len(), 81);
    }
}

#[tokio::test]
async fn diff_prints_and_counts_changes() {
    for (_database, registry) in filled().await {
        let shown = registry.run(&["diff", "1..5"]);
        for line in [
            "+ schema/SearchQuery@1.1.0  registered in revision 2, ",
            "    compared with schema/SearchQuery@1.0.0",
            "    + /schema/properties/minScore  {\"default\":0,",
            "    ~ /version  \"1.0.0\" -> \"1.1.0\"",
            "~ tool/get_webpage@1.0.0  active -> deprecated in revision 3: slow; sunset: 2027-01-31",
            "~ schema/SearchQuery  archived",
            "~ tool/fetch  owner: ",
            "revision 1 to revision 5: 4 registered, 1 with changed lifecycle, 2 with changed settings",
        ] {
            assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}\n{shown}");
        }
        let same = registry.json(&["diff", "4..7", "schema"]);
        assert_eq!(same["differences"], json!([]));
        assert_eq!(registry.ctl(&["diff", "4..7", "schema", "--exit-code"]).code, 0);
        assert_eq!(registry.ctl(&["diff", "1..2", "--exit-code"]).code, 1);
        let pair = "schema/SearchQuery@1.0.0..1.1.0";
        assert!(registry.run(&["diff", pair]).contains("minScore"));
        assert_eq!(registry.ctl(&["diff", pair, "--exit-code"]).code, 1);
        let itself = "schema/SearchQuery@1.0.0..1.0.0";
        assert_eq!(registry.json(&["diff", itself, "--exit-code"]), json!([]));
        assert_eq!(registry.ctl(&["diff", "1..8"]).code, 1, "there is no revision 8 yet");
        assert_eq!(registry.ctl(&["diff", "1"]).code, 2);
    }
}

#[tokio::test]
async fn diff_supports_filters_reversal_and_times() {
    for (_database, registry) in filled().await {
        let of = |arguments: &[&str]| outline(&registry.json(&[&["diff"], arguments].concat()));
        assert_eq!(of(&["1..5", "tool"]).len(), 3, "two tools and the owner of a third one");
        assert_eq!(of(&["1..5", "tool/fetch"]), ["settings tool/fetch"]);
        assert_eq!(
            of(&["1..5", "schema/SearchQuery"]),
            ["registered schema/SearchQuery@1.1.0", "settings schema/SearchQuery"]
        );
        let unknown = registry.ctl(&["diff", "1..5", "server/nothing"]);
        assert!(unknown.code == 1 && unknown.has_code("NOT_FOUND"), "{unknown:?}");
        let back = registry.json(&["diff", "3..1", "schema"]);
        assert_eq!(outline(&back), ["unregistered schema/SearchQuery@1.1.0"]);
        let score = &back["differences"][0]["differences"][1];
        assert_eq!(score["pointer"], "/schema/properties/minScore");
        assert!(score["new"].is_null() && score["old"]["default"] == 0, "{score}");
        let time = |revision: &str| registry.json(&["show", revision])["committedAt"].clone();
        let (second, third) = (time("2"), time("3"));
        let points = format!("{}..{}", second.as_str().unwrap(), third.as_str().unwrap());
        assert_eq!(of(&[&points]), ["lifecycle tool/get_webpage@1.0.0"]);
        assert_eq!(of(&["2020-01-01.."]).len(), 82, "all that there is, and an owner");
    }
}

fn at(revision: u64) -> v1::PointInTime {
    v1::PointInTime { at: Some(v1::point_in_time::At::Revision(revision)) }
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

#[tokio::test]
async fn diff_pages_use_same_revisions() {
    for (_database, registry) in filled().await {
        let mut client = registry.history().await;
        let all = v1::CompareRevisionsRequest {
            old_point: Some(at(1)),
            new_point: Some(at(5)),
            ..Default::default()
        };
        let whole = client.compare_revisions(all.clone()).await.unwrap().into_inner();
        assert_eq!((whole.differences.len(), whole.next_page_token.is_empty()), (7, true));
        let mut page = v1::CompareRevisionsRequest { page_size: 1, ..all.clone() };
        let mut paged = Vec::new();
        loop {
            let answer = client.compare_revisions(page.clone()).await.unwrap().into_inner();
            assert!(answer.differences.len() <= 1);
            paged.extend(answer.differences);
            if answer.next_page_token.is_empty() {
                break;
            }
            page.page_token = answer.next_page_token;
        }
        assert!(paged == whole.differences, "{paged:?}");

        let open = v1::CompareRevisionsRequest { new_point: None, page_size: 1, ..all.clone() };
        let first = client.compare_revisions(open.clone()).await.unwrap().into_inner();
        assert_eq!((first.old_revision, first.new_revision), (1, 7));
        registry.run(&["archive", "--yes", "tool/fetch"]);
        let token = first.next_page_token;
        let next = v1::CompareRevisionsRequest { page_token: token.clone(), ..open.clone() };
        let next = client.compare_revisions(next).await.unwrap().into_inner();
        assert_eq!((next.old_revision, next.new_revision), (1, 7), "those of the first page");
        let other =
            v1::CompareRevisionsRequest { new_point: Some(at(7)), page_token: token, ..open };
        let refused = client.compare_revisions(other).await.unwrap_err();
        assert_eq!(
            (refused.code(), &*reason(&refused)),
            (Code::InvalidArgument, "PAGE_TOKEN_INVALID")
        );

        let bad = [
            (v1::CompareRevisionsRequest { old_point: None, ..all.clone() }, "INVALID_REQUEST"),
            (
                v1::CompareRevisionsRequest {
                    entity: Some(v1::EntitySelector {
                        name: "fetch".to_owned(),
                        ..Default::default()
                    }),
                    ..all.clone()
                },
                "INVALID_REQUEST",
            ),
            (
                v1::CompareRevisionsRequest { page_token: "00".to_owned(), ..all.clone() },
                "PAGE_TOKEN_INVALID",
            ),
            (v1::CompareRevisionsRequest { page_size: -1, ..all.clone() }, "INVALID_REQUEST"),
            (v1::CompareRevisionsRequest { new_point: Some(at(99)), ..all }, "REVISION_AHEAD"),
        ];
        for (request, why) in bad {
            let refused = client.compare_revisions(request).await.unwrap_err();
            assert_eq!(reason(&refused), why);
        }
    }
}

#[tokio::test]
async fn blame_names_introducing_version() {
    for (_database, registry) in filled().await {
        let blame = |arguments: &[&str]| registry.json(&[&["blame"], arguments].concat());
        let of = |blamed: &Value, pointer: &str| {
            let lines = blamed["lines"].as_array().expect("a list");
            let line = lines.iter().find(|line| line["pointer"] == pointer).expect(pointer);
            (line["version"].clone(), line["revision"].clone(), line["message"].clone())
        };
        let newest = blame(&["schema/SearchQuery"]);
        assert_eq!(newest["entity"], "schema/SearchQuery@1.1.0");
        let second = (Value::from("1.1.0"), Value::from(2), Value::from("better search"));
        let first = (Value::from("1.0.0"), Value::from(1), Value::from("the example"));
        assert_eq!(of(&newest, "/schema/properties/minScore/default"), second);
        assert_eq!(of(&newest, "/description"), second);
        assert_eq!(of(&newest, "/schema/properties/query/minLength"), first);
        assert_eq!(of(&newest, "/name"), first);
        assert_eq!(newest["lines"][0]["author"], registry.json(&["show", "2"])["author"]);
        assert_eq!(blame(&["schema", "SearchQuery", "1.1.0"]), newest);

        let then = blame(&["schema/SearchQuery", "--at", "1"]);
        assert_eq!(then["entity"], "schema/SearchQuery@1.0.0");
        assert_eq!(then, blame(&["schema/SearchQuery@1.0.0"]));
        let shown = registry.run(&["blame", "schema/SearchQuery"]);
        let line = shown.lines().find(|line| line.contains("/minScore/maximum")).expect("a line");
        assert!(line.starts_with("1.1.0    2 ") && line.ends_with(" search"), "{line}");
        let early = registry.ctl(&["blame", "schema/SearchQuery@1.1.0", "--at", "1"]);
        assert!(early.code == 1 && early.has_code("NOT_FOUND"), "{early:?}");
        assert_eq!(registry.ctl(&["blame", "schema/Nothing"]).code, 1);
    }
}

#[tokio::test]
async fn blame_is_paged() {
    for (_database, registry) in filled().await {
        let mut client = registry.history().await;
        let entity = v1::EntitySelector {
            kind: v1::EntityKind::Schema.into(),
            name: "SearchQuery".to_owned(),
            ..Default::default()
        };
        let mut request =
            v1::BlameEntityRequest { entity: Some(entity.clone()), ..Default::default() };
        let whole = client.blame_entity(request.clone()).await.unwrap().into_inner();
        request.page_size = 2;
        let (mut lines, mut revisions) = (0, Vec::new());
        loop {
            let page = client.blame_entity(request.clone()).await.unwrap().into_inner();
            for line in page.lines {
                assert_eq!(line.pointer, whole.lines[lines].pointer);
                revisions.push(page.origins[usize::try_from(line.origin).unwrap()].revision);
                lines += 1;
            }
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        let origin = |line: &v1::BlameLine| usize::try_from(line.origin).unwrap();
        let expected: Vec<_> =
            whole.lines.iter().map(|line| whole.origins[origin(line)].revision).collect();
        assert_eq!(revisions, expected);
        let entity = v1::EntitySelector { version: "1.0.0".to_owned(), ..entity };
        let other = v1::BlameEntityRequest { entity: Some(entity), ..request };
        assert_eq!(reason(&client.blame_entity(other).await.unwrap_err()), "PAGE_TOKEN_INVALID");
    }
}

#[tokio::test]
async fn log_shows_reasons_at_past_revision() {
    for (_database, registry) in filled().await {
        let log = registry.run(&["log"]);
        let line = |revision: &str| {
            log.lines().find(|line| line.starts_with(revision)).expect("a line").to_owned()
        };
        assert!(line("3 ").ends_with(" 2027-01-31"), "{log}");
        assert!(line("2 ").ends_with(" search"), "{log}");
        let revisions = |arguments: &[&str]| -> Vec<u64> {
            let commits = registry.json(arguments);
            commits.as_array().unwrap().iter().filter_map(|c| c["revision"].as_u64()).collect()
        };
        assert_eq!(revisions(&["log", "--at", "3"]), [3, 2, 1]);
        assert_eq!(revisions(&["log", "--at", "3", "-n", "1"]), [3]);
        assert_eq!(revisions(&["history", "tool/get_webpage", "--at", "5"]), [1, 3]);
        assert_eq!(revisions(&["history", "tool/get_webpage"]), [1, 3, 6]);
        assert_eq!(registry.run(&["audit", "export", "--at", "2"]).lines().count(), 2);
        for read in [&["log", "--at", "8"][..], &["history", "tool/fetch", "--at", "8"]] {
            assert_eq!(registry.ctl(read).code, 1, "{read:?}");
        }
    }
}

/// Time limit of a read that waits for nothing.
const PROMPT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn kept_revision_is_read_while_another_loads() {
    let database = Database::Postgres(postgres::database().await);
    let registry = Registry::start_on(&database.url());
    for number in 0..3 {
        registry.client().await.apply_changes(pair("Historic", number)).await.expect("accepted");
    }
    let client = registry.client().await;
    let read = |revision| {
        let at = Some(v1::PointInTime { at: Some(v1::point_in_time::At::Revision(revision)) });
        let mut client = client.clone();
        async move { client.list_entities(v1::ListEntitiesRequest { at, ..Default::default() }).await }
    };
    read(2).await.expect("it is loaded and kept");
    let mut console = PgConnection::connect(&database.url()).await.expect("a connection");
    let lock = "BEGIN; LOCK TABLE changes IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut console).await.expect("locked");
    let loading = tokio::spawn(read(1));
    acceptance::eventually("the load waits for the database", || async {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'changes'::regclass";
        database.number(waiting).await > 0
    })
    .await;
    let kept = timeout(PROMPT, read(2)).await.expect("it waits for no other revision");
    assert_eq!(kept.expect("a list").into_inner().revision, 2);
    assert!(!loading.is_finished());
    sqlx::raw_sql("COMMIT").execute(&mut console).await.expect("unlocked");
    let loaded = loading.await.expect("no panic").expect("a list");
    assert_eq!(loaded.into_inner().revision, 1);
}
