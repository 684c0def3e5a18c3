//! `archive`, `unarchive`, `transfer`, `compatibility set` and `settings`.

use std::collections::BTreeSet;

use registry_core::{PointInTime, Revision, Selector, Setting, SettingChange, limits};
use registry_proto::v1;
use serde::Serialize;

use super::{Session, commit, list, lock::at, review};
use crate::{
    cli::{
        ArchiveArgs, Format, ModeArg, ReasonArgs, SetCompatibilityArgs, SettingsArgs, TransferArgs,
        Transferred,
    },
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    view::mode_text,
};

pub(super) async fn archive(
    session: &Session,
    ArchiveArgs { target, reason }: ArchiveArgs,
    archived: bool,
) -> Result<(), Failure> {
    set(session, SettingChange { target, setting: Setting::Archived(archived) }, reason).await
}

pub(super) async fn transfer(session: &Session, args: TransferArgs) -> Result<(), Failure> {
    let (transferred, owner) = args.plan()?;
    let client = session.connect().await?;
    let (targets, revision) = match transferred {
        Transferred::Targets(targets) => (targets, None),
        Transferred::AllOf(from) => {
            // The commit fails if the owner registers another name in the meantime.
            let revision = client.head().await?.0;
            (owned(&client, &from, revision).await?, Some(revision))
        }
    };
    let change = |target| SettingChange { target, setting: Setting::Owner(owner.clone()) };
    let changes: Vec<_> = targets.into_iter().map(change).collect();
    if revision.is_none() {
        for change in &changes {
            note_unregistered(&client, change).await?;
        }
    }
    commit_all(session, &client, &changes, revision, args.reason).await
}

/// The names and namespaces of an owner at a revision, at most as many as one commit can change.
async fn owned(client: &Client, owner: &str, revision: u64) -> Result<Vec<Selector>, Failure> {
    let wanted = v1::ListEntitiesRequest {
        owner: owner.to_owned(),
        page_size: PAGE_SIZE,
        at: Some(at(revision)),
        ..Default::default()
    };
    let records = list::fetch(client, wanted).await?.into_iter();
    let names = records.map(|record| format!("{}/{}", record.key.kind, record.key.name));
    // A namespace, or a name without registrations, has its owner in a setting only.
    let settings = fetch(client, Some(PointInTime::Revision(Revision(revision)))).await?;
    let settings = settings.into_iter().filter(|state| state.owner.as_deref() == Some(owner));
    let targets = names.chain(settings.map(|state| state.target));
    let targets = targets.map(|target| target.parse::<Selector>());
    let targets: BTreeSet<_> =
        targets.collect::<Result<_, _>>().map_err(Failure::invalid_response)?;
    if targets.is_empty() {
        return Err(Failure::Rejected(format!("`{owner}` owns no name and no namespace")));
    }
    let (total, most) = (targets.len(), limits::BATCH_SETTINGS);
    if total > most {
        eprintln!(
            "note: a commit has at most {most} settings; repeat the command for the other {}",
            total - most
        );
    }
    Ok(targets.into_iter().take(most).collect())
}

pub(super) async fn set_compatibility(
    session: &Session,
    SetCompatibilityArgs { target, mode: ModeArg(mode), reason }: SetCompatibilityArgs,
) -> Result<(), Failure> {
    set(session, SettingChange { target, setting: Setting::Compatibility(mode) }, reason).await
}

async fn set(session: &Session, change: SettingChange, reason: ReasonArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    note_unregistered(&client, &change).await?;
    commit_all(session, &client, &[change], None, reason).await
}

/// Commits settings, at this revision of the registry if there is one.
async fn commit_all(
    session: &Session,
    client: &Client,
    changes: &[SettingChange],
    revision: Option<u64>,
    ReasonArgs { message, confirm, commit: author }: ReasonArgs,
) -> Result<(), Failure> {
    let mut wanted = commit::new_request(Vec::new(), message, author, &session.globals.access);
    wanted.settings = changes.iter().map(Into::into).collect();
    wanted.base_revision = wanted.base_revision.or(revision);
    review::run(session, client, &wanted, confirm).await
}

async fn note_unregistered(client: &Client, change: &SettingChange) -> Result<(), Failure> {
    if let SettingChange {
        target: Selector::Name(kind, name),
        setting: Setting::Compatibility(_) | Setting::Owner(_),
    } = change
        && list::versions(client, *kind, name, None).await?.is_empty()
    {
        eprintln!(
            "note: {kind}/{name} is not registered yet; the setting applies from its first version"
        );
    }
    Ok(())
}

/// The settings of a name, a namespace or the registry.
#[derive(Serialize)]
struct SettingView {
    target: String,
    archived: bool,
    owner: Option<String>,
    compatibility: Option<String>,
    revision: u64,
}

/// Reads all pages.
pub(super) async fn fetch(
    client: &Client,
    at: Option<PointInTime>,
) -> Result<Vec<v1::SettingState>, Failure> {
    let (mut settings, mut page_token) = (Vec::new(), String::new());
    loop {
        let wanted = v1::ListSettingsRequest {
            page_size: PAGE_SIZE,
            page_token,
            at: at.map(Into::into),
            min_revision: 0,
        };
        let page = client.answer(client.registry().list_settings(request(wanted))).await?;
        settings.extend(page.settings);
        if page.next_page_token.is_empty() {
            return Ok(settings);
        }
        page_token = page.next_page_token;
    }
}

pub(super) async fn list(session: &Session, args: &SettingsArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let settings = fetch(&client, args.as_of.at).await?.into_iter().map(|state| {
        let v1::SettingState { target, archived, owner, compatibility, revision } = state;
        let compatibility = mode_text(compatibility);
        SettingView { target, archived, owner, compatibility, revision }
    });
    let settings: Vec<_> = settings.collect();
    if session.screen.format == Format::Json {
        return session.screen.json(&settings);
    }
    let mut table = TextTable::new(&["TARGET", "OWNER", "COMPATIBILITY", "ARCHIVED", "REVISION"]);
    for SettingView { target, archived, owner, compatibility, revision } in &settings {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let archived = if *archived { "yes" } else { "-" };
        let revision = revision.to_string();
        table.row([target, &text(owner), &text(compatibility), archived, &revision]);
    }
    session.screen.table(&table)
}
