//! `audit access`: the access log.

use registry_proto::v1;

use crate::{
    cli::{AccessLogArgs, Format},
    client::{Client, PAGE_SIZE, request},
    commands::Session,
    failure::Failure,
    screen::TextTable,
    view::AccessEventView,
};

pub(super) async fn run(session: &Session, args: &AccessLogArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let events = all(&client, args.after).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&events);
    }
    let head = ["NUMBER", "TIME", "PRINCIPAL", "METHOD", "ADDRESS", "EVENT", "SUBJECT", "DETAIL"];
    let mut table = TextTable::new(&head);
    for event in &events {
        let AccessEventView { number, at, principal, method, address, event, subject, detail } =
            event;
        let (number, at) = (number.to_string(), at.as_deref().unwrap_or_default());
        table.row([&*number, at, principal, method, address, event, subject, detail]);
    }
    session.screen.table(&table)
}

/// Reads all pages.
async fn all(client: &Client, after_number: u64) -> Result<Vec<AccessEventView>, Failure> {
    let page_token = String::new();
    let mut wanted = v1::ListAccessEventsRequest { after_number, page_size: PAGE_SIZE, page_token };
    let mut events = Vec::new();
    loop {
        let call = client.audit();
        let page = client.answer({ call }.list_access_events(request(wanted.clone()))).await?;
        events.extend(page.events.into_iter().map(AccessEventView::from));
        if page.next_page_token.is_empty() {
            return Ok(events);
        }
        wanted.page_token = page.next_page_token;
    }
}
