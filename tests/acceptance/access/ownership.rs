//! Ownership of names, on both databases and with two servers that compete for one name.

use acceptance::{
    Registry,
    access::{Authorized, Bearer, Guarded, create_token, server},
    eventually, postgres,
};
use prost::Message as _;
use registry_proto::v1::{
    self, history_service_client::HistoryServiceClient,
    registry_service_client::RegistryServiceClient,
};
use tonic::{Code, Status, service::interceptor::InterceptedService};
use tonic_types::StatusExt as _;

type Client = RegistryServiceClient<Authorized>;

fn register(name: &str, version: &str) -> v1::ApplyChangesRequest {
    let server =
        v1::Server { name: name.to_owned(), version: version.to_owned(), ..Default::default() };
    let entity = v1::Entity { kind: Some(v1::entity::Kind::Server(server)) };
    let change = v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    };
    v1::ApplyChangesRequest { changes: vec![change], ..Default::default() }
}

fn deprecate(name: &str) -> v1::ApplyChangesRequest {
    let kind = v1::EntityKind::Server.into();
    let key = v1::EntityKey { kind, name: name.to_owned(), version: "1.0.0".to_owned() };
    let state = v1::LifecycleState::Deprecated.into();
    let change = v1::SetLifecycle { key: Some(key), state, ..Default::default() };
    let change = v1::EntityChange {
        change: Some(v1::entity_change::Change::SetLifecycle(change)),
        if_digest: None,
    };
    v1::ApplyChangesRequest { changes: vec![change], ..Default::default() }
}

fn transfer(target: &str, owner: &str) -> v1::ApplyChangesRequest {
    let setting = v1::setting_change::Setting::Owner(owner.to_owned());
    let change = v1::SettingChange { target: target.to_owned(), setting: Some(setting) };
    v1::ApplyChangesRequest { settings: vec![change], ..Default::default() }
}

async fn apply(
    client: &Client,
    request: v1::ApplyChangesRequest,
) -> Result<v1::ApplyChangesResponse, Status> {
    client.clone().apply_changes(request).await.map(tonic::Response::into_inner)
}

/// The codes and messages of a rejection for lack of ownership or scopes.
fn findings(status: &Status) -> Vec<(String, String)> {
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let details = tonic_types::pb::Status::decode(status.details()).expect("details").details;
    let name = "type.googleapis.com/registry.v1.ValidationFailure";
    let detail = details.into_iter().find(|any| any.type_url == name).expect("findings");
    let failure = v1::ValidationFailure::decode(&*detail.value).expect("a failure");
    failure.diagnostics.into_iter().map(|found| (found.code, found.message)).collect()
}

async fn refused(client: &Client, request: v1::ApplyChangesRequest) -> (String, String) {
    let rehearsed =
        apply(client, v1::ApplyChangesRequest { validate_only: true, ..request.clone() }).await;
    let shown = rehearsed.expect("a dry run answers").diagnostics;
    let status = apply(client, request).await.expect_err("it is another's");
    let found = findings(&status).remove(0);
    assert!(shown.iter().any(|shown| shown.code == found.0), "a dry run says so too: {shown:?}");
    found
}

async fn ownership_is_enforced(guarded: &Guarded) {
    let client = async |name: &str, team: &str| {
        let token = guarded.token(name, team, "publisher");
        RegistryServiceClient::new(guarded.channel(&token).await)
    };
    let (docs, search) = (client("ci-docs", "docs").await, client("ci-search", "search").await);
    let admin = RegistryServiceClient::new(guarded.channel(&guarded.admin).await);
    apply(&docs, register("fetch", "1.0.0")).await.expect("a free name");

    for (request, has_owner) in [
        (register("fetch", "1.1.0"), true),
        (deprecate("fetch"), true),
        (transfer("server/fetch", "search"), true),
        (v1::ApplyChangesRequest { changes: vec![], ..transfer("search/*", "search") }, false),
    ] {
        let (code, message) = refused(&search, request).await;
        assert_eq!(code, "not-owner", "{message}");
        assert_eq!(message.contains("`docs`"), has_owner, "the owner is named: {message}");
    }
    let again = apply(&search, register("fetch", "1.0.0")).await.expect("it changes nothing");
    assert!(!again.committed);

    apply(&docs, transfer("server/fetch", "search")).await.expect("its owner gives it away");
    assert_eq!(refused(&docs, register("fetch", "1.1.0")).await.0, "not-owner");
    apply(&search, register("fetch", "1.1.0")).await.expect("it is theirs now");

    apply(&admin, transfer("acme/*", "docs")).await.expect("an admin gives a namespace");
    assert_eq!(refused(&search, register("acme/new", "1.0.0")).await.0, "not-owner");
    let made = apply(&docs, register("acme/new", "1.0.0")).await.expect("the namespace's owner");
    apply(&admin, register("fetch", "2.0.0")).await.expect("an admin may");

    let mut history = HistoryServiceClient::new(guarded.channel(&guarded.admin).await);
    let request = v1::GetCommitRequest { revision: made.revision, ..Default::default() };
    let commit = history.get_commit(request).await.expect("a commit").into_inner().commit;
    let commit = commit.expect("a commit");
    let origin = commit.origin.expect("an origin");
    assert_eq!((&*commit.author, origin.team()), ("ci-docs", "docs"));
    let method = origin.authentication.expect("authenticated").method();
    assert_eq!((method, &origin.address), (v1::AuthenticationMethod::Token, &None));
    let list = v1::ListEntitiesRequest { owner: "search".to_owned(), ..Default::default() };
    let listed = admin.clone().list_entities(list).await.expect("a list").into_inner().records;
    assert_eq!(listed.len(), 3, "all versions of fetch are theirs: {listed:?}");

    let process = &guarded.registry.process;
    let committed = ["event=\"committed\" revision=1 principal=\"ci-docs\"", "chain=sha256:"];
    let denied = ["event=\"denied\" principal=\"ci-search\"", "entity=\"server/fetch@1.1.0\""];
    let [write, dry_run] =
        ["dry_run=false", "dry_run=true"].map(|mode| [denied[0], denied[1], mode]);
    for event in [&committed[..], &write, &dry_run] {
        eventually("it is logged once, with the address", || async {
            let lines = process.logged(event);
            lines.len() == 1 && lines[0].contains("address=\"127.0.0.1\"")
        })
        .await;
    }
}

#[tokio::test]
async fn ownership_is_enforced_on_sqlite() {
    ownership_is_enforced(&Guarded::start(&[])).await;
}

#[tokio::test]
async fn ownership_is_enforced_on_postgres() {
    let database = postgres::database().await;
    ownership_is_enforced(&Guarded::start_on(database.url(), &[])).await;
}

#[tokio::test]
async fn token_scope_restricts_writes() {
    let guarded = Guarded::start(&[]);
    let create = ["token", "create", "--name", "ci", "--team", "docs", "--role", "publisher"];
    let scopes = ["--scope", "docs/*", "--scope", "server/fetch"];
    let made = server(&guarded.database, &[&create[..], &scopes].concat());
    let token = String::from_utf8(made.stdout).expect("text");
    let client = RegistryServiceClient::new(guarded.channel(token.trim()).await);
    for name in ["docs/a", "fetch"] {
        apply(&client, register(name, "1.0.0")).await.expect(name);
    }
    let (code, message) = refused(&client, register("other", "1.0.0")).await;
    assert_eq!(code, "outside-scope");
    assert!(message.contains("docs/*, server/fetch"), "{message}");
    for none in ["not a selector", "", "docs/* server/fetch"] {
        let wrong = server(&guarded.database, &[&create[..], &["--scope", none]].concat());
        assert_eq!(wrong.status.code(), Some(2), "{none}");
        let asked = ["--name", "ci", "--role", "publisher", "--scope", none];
        let why = create_by(&guarded, &guarded.admin, &asked).expect_err("no selector");
        assert!(why.contains("scopes"), "{none}: {why}");
    }
}

/// Creates a token over the API and returns its text.
fn create_by(guarded: &Guarded, token: &str, arguments: &[&str]) -> Result<String, String> {
    let create = ["token", "create", "--yes", "--token", token];
    let made = guarded.registry.ctl(&[&create[..], arguments].concat());
    if made.success() { Ok(made.stdout.trim().to_owned()) } else { Err(made.stderr) }
}

#[tokio::test]
async fn scoped_admin_manages_only_tokens_within_scopes() {
    let guarded = Guarded::start(&[]);
    let held = ["--name", "held", "--role", "admin", "--scope", "docs/*"];
    let held = create_by(&guarded, &guarded.admin, &held).expect("made");
    let wanted = ["--name", "x", "--role", "admin"];
    for (scopes, beyond) in [
        (&[][..], "`*`"),
        (&["--scope", "*"], "`*`"),
        (&["--scope", "docs/*", "--scope", "tool/fetch"], "`tool/fetch`"),
        (&["--scope", "other/*"], "`other/*`"),
    ] {
        let refused = create_by(&guarded, &held, &[&wanted[..], scopes].concat());
        let why = refused.expect_err("beyond its scopes");
        let expected = format!(
            "the scope {beyond} of the token exceeds the scopes of `held`, which are docs/*"
        );
        assert!(why.contains(&expected), "{why}");
    }
    let within = [&wanted[..], &["--scope", "server/docs/a"]].concat();
    let made = create_by(&guarded, &held, &within).expect("within its scopes");
    let revoke = |by: &str, token: &str| {
        guarded.registry.ctl(&["token", "revoke", "--yes", &token[4..16], "--token", by])
    };
    let refused = revoke(&held, &guarded.admin);
    assert!(refused.has_code("PERMISSION_DENIED") && refused.stderr.contains("`*`"), "{refused:?}");
    let refused = revoke(&made, &held);
    assert!(
        refused.has_code("PERMISSION_DENIED") && refused.stderr.contains("`docs/*`"),
        "{refused:?}"
    );
    assert!(revoke(&held, &made).success(), "one within its scopes");
    assert!(revoke(&held, &held).success(), "its own");
}

#[tokio::test]
async fn open_server_enforces_no_ownership() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    for author in ["ann", "bob"] {
        let version = if author == "ann" { "1.0.0" } else { "1.1.0" };
        let request =
            v1::ApplyChangesRequest { author: author.to_owned(), ..register("s", version) };
        client.apply_changes(request).await.expect("all callers are equal");
    }
    let listed = client
        .list_entities(v1::ListEntitiesRequest::default())
        .await
        .expect("a list")
        .into_inner();
    assert_eq!(listed.records[0].owner, "ann");
    let author = "a\u{202e}nn".to_owned();
    let unseen = v1::ApplyChangesRequest { author, ..register("free", "1.0.0") };
    let refused = client.apply_changes(unseen).await.expect_err("invisible characters");
    let reason = refused.get_details_error_info().expect("an ErrorInfo").reason;
    assert_eq!((refused.code(), &*reason), (Code::InvalidArgument, "INVALID_REQUEST"));
    assert!(refused.message().contains("author"), "{refused:?}");
}

/// Two teams register the same new names at the same time through two servers. Each name gets one
/// owner, and both servers report the same owner to the other team.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_of_free_name_have_one_winner() {
    const NAMES: usize = 40;
    let database = postgres::database().await;
    let left = Guarded::start_on(database.url(), &[]);
    let right = Registry::start_with(database.url(), &[]);
    let mut racers = Vec::new();
    for (team, server) in [("docs", &left.registry), ("search", &right)] {
        let token = create_token(database.url(), team, team, "publisher");
        let channel = InterceptedService::new(server.channel().await, Bearer(token));
        let client = RegistryServiceClient::new(channel);
        racers.push(tokio::spawn(async move {
            let mut won = Vec::new();
            for i in 0..NAMES {
                // Another version, so that the second registration is a change.
                let version = if team == "docs" { "1.0.0" } else { "2.0.0" };
                match apply(&client, register(&format!("s{i}"), version)).await {
                    Ok(answer) => won.push((i, answer.committed)),
                    Err(status) => assert_eq!(findings(&status)[0].0, "not-owner", "{status:?}"),
                }
            }
            won
        }));
    }
    let mut won = Vec::new();
    for racer in racers {
        won.extend(racer.await.expect("a racer ends"));
    }
    won.sort_unstable();
    let all: Vec<_> = (0..NAMES).map(|i| (i, true)).collect();
    assert_eq!(won, all, "each name went to one of them");
}

#[tokio::test]
async fn token_revoked_at_one_server_is_rejected_everywhere() {
    let database = postgres::database().await;
    let left = Guarded::start_on(database.url(), &[]);
    let right = Registry::start_with(database.url(), &[]);
    let token = left.token("ci", "docs", "reader");
    let client = async |registry: &Registry| {
        let channel = InterceptedService::new(registry.channel().await, Bearer(token.clone()));
        RegistryServiceClient::new(channel)
    };
    let mut there = client(&right).await;
    there
        .list_entities(v1::ListEntitiesRequest::default())
        .await
        .expect("it is known there at once");
    let began = std::time::Instant::now();
    let revoke = ["token", "revoke", "--yes", &token[4..16], "--token", &left.admin];
    assert!(left.registry.ctl(&revoke).success());
    let mut here = client(&left.registry).await;
    assert!(
        here.list_entities(v1::ListEntitiesRequest::default()).await.is_err(),
        "at once where it was said"
    );
    acceptance::eventually("the other refuses it", || async {
        there.clone().list_entities(v1::ListEntitiesRequest::default()).await.is_err()
    })
    .await;
    assert!(began.elapsed().as_secs() < 5, "within seconds");
}
