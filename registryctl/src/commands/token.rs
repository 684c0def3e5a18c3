//! `token` and `whoami`: API tokens, and the authenticated caller.
//!
//! The secret of a new token is written to standard output only.

use clap::ValueEnum;
use registry_core::expiry::parse_expiry;
use registry_proto::{convert, v1};
use serde_json::json;

use super::{Session, review::confirm_action};
use crate::{
    cli::{CreateTokenArgs, Format, RevokeTokenArgs, TokenCommand},
    client::{Client, PAGE_SIZE, request},
    clock,
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::{TokenView, roles},
};

pub(super) async fn run(session: &Session, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(args) => create(session, args).await,
        TokenCommand::List { all } => list(session, all).await,
        TokenCommand::Revoke(args) => revoke(session, args).await,
    }
}

async fn create(session: &Session, args: CreateTokenArgs) -> Result<(), Failure> {
    let CreateTokenArgs { name, team, roles, scopes, expires, confirm } = args;
    let expires_at = parse_expiry(&expires, clock::timestamp()).map_err(Failure::usage)?;
    let end = expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let names: Vec<_> = roles.iter().filter_map(ValueEnum::to_possible_value).collect();
    let names: Vec<_> = names.iter().map(clap::builder::PossibleValue::get_name).collect();
    let roles_text = names.join(", ");
    let action = format!("create a token for {name}; roles: {roles_text}; expires: {end}");
    if !confirm_action(session.screen, &action, confirm)? {
        return Ok(());
    }
    let wanted = v1::CreateTokenRequest {
        name,
        team,
        roles: roles.into_iter().map(|role| v1::AccessRole::from(role).into()).collect(),
        scopes,
        expire_time: expires_at.map(convert::timestamp),
    };
    let client = session.connect().await?;
    let created = client.answer(client.access().create_token(request(wanted))).await?;
    let v1::CreateTokenResponse { secret, token } = created;
    let token =
        TokenView::from(token.ok_or_else(|| Failure::invalid_response("the token is missing"))?);
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({ "secret": secret, "token": token }));
    }
    let end = token.expires_at.as_deref().unwrap_or("never");
    eprintln!(
        "token {} for {}, expires: {end}; store the secret, it is shown once:",
        token.id, token.name
    );
    session.screen.line(&secret)
}

async fn list(session: &Session, include_ended: bool) -> Result<(), Failure> {
    let client = session.connect().await?;
    let tokens = all(&client, include_ended).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&tokens);
    }
    let now = clock::timestamp().to_string();
    let head = ["ID", "NAME", "TEAM", "ROLES", "SCOPES", "EXPIRES", "LAST USED", "STATE"];
    let mut table = TextTable::new(&head);
    for token in &tokens {
        let time = |at: &Option<String>| at.clone().unwrap_or_else(|| "never".to_owned());
        let has_expired = token.expires_at.as_ref().is_some_and(|at| *at <= now);
        let state = match &token.revoked_by {
            Some(by) => format!("revoked by {by}"),
            None if has_expired => "expired".to_owned(),
            None => "active".to_owned(),
        };
        let is_active = state == "active";
        let cells = [
            token.id.clone(),
            token.name.clone(),
            token.team.clone(),
            token.roles.join(" "),
            if token.scopes.is_empty() { "*".to_owned() } else { token.scopes.join(" ") },
            time(&token.expires_at),
            time(&token.last_used_at),
            state,
        ];
        if is_active { table.row(cells) } else { table.painted(Paint::Dim, cells) }
    }
    session.screen.table(&table)
}

/// Reads all pages.
async fn all(client: &Client, include_ended: bool) -> Result<Vec<TokenView>, Failure> {
    let mut wanted = v1::ListTokensRequest {
        include_inactive: include_ended,
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    let mut tokens = Vec::new();
    loop {
        let page = client.answer(client.access().list_tokens(request(wanted.clone()))).await?;
        tokens.extend(page.tokens.into_iter().map(TokenView::from));
        if page.next_page_token.is_empty() {
            return Ok(tokens);
        }
        wanted.page_token = page.next_page_token;
    }
}

async fn revoke(
    session: &Session,
    RevokeTokenArgs { id, confirm }: RevokeTokenArgs,
) -> Result<(), Failure> {
    if !confirm_action(session.screen, &format!("revoke the token {id}"), confirm)? {
        return Ok(());
    }
    let client = session.connect().await?;
    let wanted = request(v1::RevokeTokenRequest { id: id.clone() });
    client.answer(client.access().revoke_token(wanted)).await.map_err(|failure| {
        let is_unknown =
            matches!(&failure, Failure::RequestRejected { reason, .. } if reason == "NOT_FOUND");
        let help = "write the id of the token, which `registryctl token list` shows";
        if is_unknown { failure.with_help(help.to_owned()) } else { failure }
    })?;
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({ "revoked": id }));
    }
    session.screen.line(&format!("revoked {id}; every server rejects it within seconds"))
}

pub(super) async fn who_am_i(session: &Session) -> Result<(), Failure> {
    let client = session.connect().await?;
    let who = client.answer(client.access().who_am_i(request(v1::WhoAmIRequest {}))).await?;
    let v1::WhoAmIResponse { name, team, roles: numbers, scopes, authentication, address } = who;
    let method = convert::authentication_text(&authentication.unwrap_or_default());
    let roles = roles(&numbers);
    let writes = writable(&roles);
    if session.screen.format == Format::Json {
        return session.screen.json(&json!({
            "name": name,
            "team": team,
            "roles": roles,
            "writes": writes,
            "scopes": scopes,
            "method": method,
            "address": address,
        }));
    }
    let scopes = match &scopes[..] {
        [] => "*".to_owned(),
        scopes => scopes.join(" "),
    };
    let writes = match writes {
        "nothing" => "nothing".to_owned(),
        kind => format!("{kind} {scopes}"),
    };
    let lines = [
        ("name", name),
        ("team", team),
        ("roles", roles.join(" ")),
        ("rights", all_rights(&roles)),
        ("writes", writes),
        ("method", method),
        ("address", address),
    ];
    lines.iter().try_for_each(|(name, value)| session.screen.line(&format!("{name:<10} {value}")))
}

/// The entities that these roles write: `entities`, `policies` or `nothing`.
fn writable(roles: &[&str]) -> &'static str {
    if roles.iter().any(|role| matches!(*role, "publisher" | "admin")) {
        "entities"
    } else if roles.contains(&"governor") {
        "policies"
    } else {
        "nothing"
    }
}

/// The rights of a caller, each once.
fn all_rights(roles: &[&str]) -> String {
    // An admin has the rights of every other role.
    let roles = if roles.contains(&"admin") { &["admin"][..] } else { roles };
    let mut granted: Vec<&str> = Vec::new();
    for right in roles.iter().filter_map(|role| rights(role)) {
        let is_first = !granted.iter().any(|known| known.starts_with(READ));
        let new = right.strip_prefix(READ).filter(|_| !is_first).map(|more| {
            let more = more.trim_start_matches(", ");
            more.strip_prefix("and ").unwrap_or(more)
        });
        granted.extend(Some(new.unwrap_or(right)).filter(|right| !right.is_empty()));
    }
    granted.join("; ")
}

/// The right that most roles have. The texts of [`rights`] start with it.
const READ: &str = "read the catalog and the history";

/// The rights of a role. `None`: the role is unknown.
fn rights(role: &str) -> Option<&'static str> {
    Some(match role {
        "reader" => "read the catalog and the history",
        "approver" => {
            "read the catalog and the history, and decide about calls that need its approval"
        }
        "publisher" => {
            "read the catalog and the history, and register and change what the team owns"
        }
        "auditor" => {
            "read the catalog and the history, list gateways, budgets and approvals, read usage, traces and access events, and verify the log"
        }
        "gateway" => "follow the registry, and report spending and usage",
        "relay" => "follow the registry, and forward the reports of gateways",
        "governor" => {
            "read the catalog and the history, register and retire policies of its team about names of any team, change budgets, read usage, list gateways, and see and cancel all approvals"
        }
        "admin" => "everything, including names of other teams, and tokens",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_several_roles_are_named_once() {
        assert_eq!(all_rights(&["reader"]), READ);
        assert_eq!(all_rights(&["reader", "gateway", "admin"]), rights("admin").unwrap());
        insta::assert_snapshot!(
            all_rights(&["reader", "publisher", "gateway", "approver"]),
            @"read the catalog and the history; register and change what the team owns; follow the \
              registry, and report spending and usage; decide about calls that need its approval"
        );
    }
}
