//! `sbom where-used`: the entities that contain an entity.

use registry_proto::{convert, v1};
use serde::Serialize;

use super::{super::missing, Session};
use crate::{
    cli::{Format, WhereUsedArgs},
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    style::Paint,
};

/// An entity that contains the searched one.
#[derive(Debug, Serialize)]
struct UserView {
    user: String,
    lifecycle: &'static str,
    contains: String,
    direct: bool,
    path: Vec<String>,
}

pub(super) async fn run(session: &Session, args: &WhereUsedArgs) -> Result<(), Failure> {
    let (kind, name, version) = args.name.parts()?;
    let client = session.connect().await?;
    let user_kind = args.user_kind.map_or(v1::EntityKind::Unspecified, Into::into);
    let mut wanted = v1::FindComponentUsersRequest {
        component: Some(convert::selector(kind, Some(&name), version.as_ref())),
        user_kind: user_kind.into(),
        page_size: PAGE_SIZE,
        at: args.as_of.message(),
        ..Default::default()
    };
    let mut users = Vec::new();
    loop {
        let page = match client
            .answer(client.sbom().find_component_users(request(wanted.clone())))
            .await
        {
            Ok(page) => page,
            Err(failure) => {
                let (version, at) = (version.as_ref(), args.as_of.at);
                return Err(missing::explain(&client, failure, kind, &name, version, at).await);
            }
        };
        for holder in page.users {
            users.push(view(holder)?);
        }
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    show(session, &users)
}

fn view(user: v1::ComponentUser) -> Result<UserView, Failure> {
    let v1::ComponentUser { path, lifecycle_state } = user;
    let key = |key| registry_core::Key::try_from(key).map(|key| key.to_string());
    let path: Vec<_> =
        path.into_iter().map(key).collect::<Result<_, _>>().map_err(Failure::invalid_response)?;
    let [user, .., contains] = path.as_slice() else {
        return Err(Failure::invalid_response("a path has fewer than two entities"));
    };
    Ok(UserView {
        user: user.clone(),
        lifecycle: convert::state(lifecycle_state).map_err(Failure::invalid_response)?.as_str(),
        contains: contains.clone(),
        direct: path.len() == 2,
        path,
    })
}

fn show(session: &Session, users: &[UserView]) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(&users);
    }
    let mut table = TextTable::new(&["USED IN", "LIFECYCLE", "CONTAINS", "PATH"]);
    for UserView { user, lifecycle, contains, path, .. } in users {
        let path = path.join(" → ");
        let cells = [user.as_str(), lifecycle, contains, &path];
        match *lifecycle {
            "active" => table.row(cells),
            "deprecated" => table.painted(Paint::Careful, cells),
            _ => table.painted(Paint::Dim, cells),
        }
    }
    session.screen.table(&table)
}
