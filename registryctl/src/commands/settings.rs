//! `archive`, `unarchive`, `transfer`, `compatibility set` and `settings`.

use registry_core::{PointInTime, Selector, Setting, SettingChange};
use registry_proto::v1;
use serde::Serialize;

use super::{Session, commit, list, review};
use crate::{
    cli::{
        ArchiveArgs, Format, ModeArg, ReasonArgs, SetCompatibilityArgs, SettingsArgs, TransferArgs,
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
    let owner = args.owner();
    let TransferArgs { target, reason, .. } = args;
    set(session, SettingChange { target, setting: Setting::Owner(owner) }, reason).await
}

pub(super) async fn set_compatibility(
    session: &Session,
    SetCompatibilityArgs { target, mode: ModeArg(mode), reason }: SetCompatibilityArgs,
) -> Result<(), Failure> {
    set(session, SettingChange { target, setting: Setting::Compatibility(mode) }, reason).await
}

async fn set(
    session: &Session,
    change: SettingChange,
    ReasonArgs { message, confirm, commit: author }: ReasonArgs,
) -> Result<(), Failure> {
    let client = session.connect().await?;
    let mut wanted = commit::new_request(Vec::new(), message, author, &session.globals.access);
    wanted.settings = vec![(&change).into()];
    if let SettingChange {
        target: Selector::Name(kind, name),
        setting: Setting::Compatibility(_) | Setting::Owner(_),
    } = &change
        && list::versions(&client, *kind, name, None).await?.is_empty()
    {
        eprintln!(
            "note: {kind}/{name} is not registered yet; the setting applies from its first version"
        );
    }
    review::run(session, &client, &wanted, confirm).await
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
