//! `archive`, `unarchive`, `transfer`, `compatibility` and `settings`: what is set about names.
//!
//! The command does not ask for confirmation: its arguments are complete, and the change can be
//! reverted.

use registry_core::{Kind, Name, Selector, Setting, SettingChange};
use registry_proto::v1;
use serde::Serialize;
use serde_json::json;

use super::{Session, commit};
use crate::{
    cli::{
        ArchiveArgs, CompatibilityArgs, Format, SettingsArgs, TransferArgs, WantedMode, WhyArgs,
    },
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
};

pub(super) async fn archive(
    session: &Session,
    ArchiveArgs { on, why }: ArchiveArgs,
    archived: bool,
) -> Result<(), Failure> {
    set(session, SettingChange { on, setting: Setting::Archived(archived) }, why).await
}

pub(super) async fn transfer(
    session: &Session,
    TransferArgs { on, owner, why }: TransferArgs,
) -> Result<(), Failure> {
    set(session, SettingChange { on, setting: Setting::Owner(owner) }, why).await
}

pub(super) async fn compatibility(
    session: &Session,
    CompatibilityArgs { on, mode: WantedMode(mode), why }: CompatibilityArgs,
) -> Result<(), Failure> {
    set(session, SettingChange { on, setting: Setting::Compatibility(mode) }, why).await
}

/// Whether there is any version of this name.
async fn is_registered(client: &Client, kind: Kind, name: &Name) -> Result<bool, Failure> {
    let wanted = v1::ListRequest {
        kind: v1::Kind::from(kind).into(),
        name: name.to_string(),
        page_size: 1,
        ..v1::ListRequest::default()
    };
    let page = client.answer(client.registry().list(request(wanted))).await?;
    Ok(!page.records.is_empty())
}

async fn set(
    session: &Session,
    change: SettingChange,
    WhyArgs { message, commit: author }: WhyArgs,
) -> Result<(), Failure> {
    let client = session.connect().await?;
    let mut wanted = commit::request_of(Vec::new(), message, author, &session.globals.access);
    wanted.settings = vec![(&change).into()];
    let response = commit::apply_or_show(session.screen, &client, &wanted).await?;
    let v1::ApplyResponse { revision, committed, .. } = response;
    if let SettingChange { on: Selector::Name(kind, name), setting: Setting::Compatibility(_) } =
        &change
        && !is_registered(&client, *kind, name).await?
    {
        let on = &change.on;
        eprintln!("note: nothing is registered as {on} yet; this holds from its first version on");
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({ "revision": revision, "committed": committed }));
    }
    session.screen.line(&if committed {
        format!("{change}: set in revision {revision}")
    } else {
        format!("{change}: it was so already; the registry stays at revision {revision}")
    })
}

/// What is set about one name, namespace or everything.
#[derive(Serialize)]
struct SettingView {
    on: String,
    archived: bool,
    owner: Option<String>,
    compatibility: Option<String>,
    revision: u64,
}

pub(super) async fn list(session: &Session, args: &SettingsArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let (mut settings, mut page_token) = (Vec::new(), String::new());
    loop {
        let at = args.at.message();
        let wanted = v1::ListSettingsRequest { page_size: PAGE_SIZE, page_token, at };
        let page = client.answer(client.registry().list_settings(request(wanted))).await?;
        settings.extend(page.settings.into_iter().map(|state| {
            let v1::SettingState { on, archived, owner, compatibility, revision } = state;
            SettingView { on, archived, owner, compatibility, revision }
        }));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&settings);
    }
    let mut table = TextTable::new(&["ON", "OWNER", "COMPATIBILITY", "ARCHIVED", "REVISION"]);
    for SettingView { on, archived, owner, compatibility, revision } in &settings {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let archived = if *archived { "yes" } else { "-" };
        let revision = revision.to_string();
        table.row([on, &text(owner), &text(compatibility), archived, &revision]);
    }
    session.screen.table(&table)
}
