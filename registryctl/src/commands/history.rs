//! `history`: the changes of a name and its settings, or of one version.

use registry_proto::{convert, v1};

use super::{Session, missing};
use crate::{
    cli::{Format, HistoryArgs},
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    view::{ChangeView, EventView},
};

pub(super) async fn run(session: &Session, args: &HistoryArgs) -> Result<(), Failure> {
    let (kind, name, version) = args.name.parts()?;
    let client = session.connect().await?;
    let mut wanted = v1::ListEntityEventsRequest {
        entity: Some(convert::selector(kind, Some(&name), version.as_ref())),
        page_size: PAGE_SIZE,
        at: args.as_of.message(),
        ..Default::default()
    };
    let mut events = Vec::new();
    loop {
        let call = request(wanted.clone());
        let page = match client.answer(client.history().list_entity_events(call)).await {
            Ok(page) => page,
            Err(failure) => {
                let (version, at) = (version.as_ref(), args.as_of.at);
                return Err(missing::explain(&client, failure, kind, &name, version, at).await);
            }
        };
        events.extend(page.events.into_iter().map(EventView::from));
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    if events.is_empty() {
        let (version, at) = (version.as_ref(), args.as_of.at);
        return Err(missing::not_registered(&client, kind, &name, version, at).await);
    }
    show(session, &events)
}

fn show(session: &Session, events: &[EventView]) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(&events);
    }
    let mut table = TextTable::new(&["REVISION", "TIME", "AUTHOR", "ACTION", "VERSION", "MESSAGE"]);
    for EventView { revision, committed_at, author, message, change, setting } in events {
        let (revision, time) = (revision.to_string(), committed_at.as_deref().unwrap_or_default());
        if let Some(ChangeView { action, key, .. }) = change {
            let reason = change.as_ref().map(ChangeView::reasons).filter(|text| !text.is_empty());
            let message = reason.as_ref().unwrap_or(message);
            table.row([&revision, time, author, action, &key.version, message]);
        }
        if let Some(setting) = setting {
            table.row([&revision, time, author, "set", "", &setting.to_string()]);
        }
    }
    session.screen.table(&table)
}
