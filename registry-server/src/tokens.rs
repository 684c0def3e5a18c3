//! `registry-server token`: API tokens in the database.
//!
//! The secret of a new token is written to standard output only. Scripts that need JSON use
//! `registryctl token`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use registry_core::{Timestamp, expiry::parse_expiry};
use registry_server::{
    Config,
    access::{Issued, NewToken, Principal, Scopes, Tokens},
    app::{
        page::{Page, PageRequest},
        tokens::{self, Error},
    },
    clock::{Clock as _, SystemClock},
    config::TokenCommand,
    store::{self, Store, StoredToken, TokenFilter},
};

use super::{DATABASE, FAILED, USAGE, database_failure, require_database};

/// Tokens per database query.
const PAGE: usize = 1_000;

type Failure = (u8, String);

pub(super) async fn run(config: &Config, command: TokenCommand) -> Result<ExitCode, Failure> {
    let is_new = config.database_url().map_err(|e| usage(&e))?.is_missing();
    if !matches!(command, TokenCommand::Create { .. }) {
        require_database(config)?;
    }
    let url = config.database().map_err(|e| usage(&e))?;
    let store = Store::open_existing(&url).await.map_err(|e| database_failure(&e))?;
    let (by, now) = (Principal::local(&config.user), SystemClock.now());
    let done = match command {
        TokenCommand::Create { name, team, roles, scopes, expires } => {
            let wanted = NewToken {
                team: team.unwrap_or_else(|| name.clone()),
                name,
                roles: roles.into_iter().collect(),
                scopes: Scopes::parse_list(&scopes).map_err(|e| usage(&e))?,
                expires_at: parse_expiry(&expires, now).map_err(|e| usage(&e))?,
            };
            let is_first = is_first(&store).await.map_err(|e| failure(&e.into()))?;
            let (secret, token) =
                tokens::create(&store, &by, wanted, now).await.map_err(|e| failure(&e))?;
            if is_new {
                eprintln!("created the database {url}; start the server with the same database");
            } else if is_first {
                eprintln!(
                    "restart servers that run without authentication: they require it from the next start on"
                );
            }
            let end = token.expires_at.map_or("never".to_owned(), |at| at.to_string());
            eprintln!(
                "created token {} for {}, expires {end}; copy the secret now, it is shown only once:",
                token.id, token.name
            );
            writeln!(io::stdout(), "{}", secret.expose())
        }
        TokenCommand::List { all } => {
            let which = if all { TokenFilter::All } else { TokenFilter::Active(now) };
            let tokens = all_pages(&store, which).await.map_err(|e| failure(&e))?;
            io::stdout().write_all(table(&tokens, now).as_bytes())
        }
        TokenCommand::Revoke { id } => {
            tokens::revoke(&store, &by, &id, now).await.map_err(|e| failure(&e))?;
            writeln!(io::stdout(), "revoked {id}; every server rejects it within seconds")
        }
    };
    store.close().await;
    done.map(|()| ExitCode::SUCCESS).map_err(|e| (FAILED, format!("cannot write the output: {e}")))
}

/// Whether the database never had a token. Servers without other credentials then run without
/// authentication.
async fn is_first(store: &Store) -> Result<bool, store::Error> {
    let tokens = Tokens::open(store.clone(), Arc::new(SystemClock)).await?;
    Ok(tokens.issued().await? == Issued::Never)
}

async fn all_pages(store: &Store, which: TokenFilter) -> Result<Vec<StoredToken>, Error> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let Page { items, next_page_token } = {
            let page = PageRequest::new(PAGE, next, "ListTokens", &[]);
            tokens::list(store, which, &page).await?
        };
        all.extend(items);
        if next_page_token.is_empty() {
            return Ok(all);
        }
        next = next_page_token;
    }
}

fn usage(error: &impl ToString) -> Failure {
    (USAGE, error.to_string())
}

fn failure(error: &Error) -> Failure {
    let code = match error {
        Error::Invalid(_) => USAGE,
        Error::Store(_) => DATABASE,
        Error::Beyond { .. }
        | Error::TooMany
        | Error::Unknown(_)
        | Error::Random
        | Error::Page(_) => FAILED,
    };
    let remedy = match error {
        Error::Unknown(_) => "; `registry-server token list` shows the ids",
        _ => "",
    };
    (code, format!("{error}{remedy}"))
}

fn table(tokens: &[StoredToken], now: Timestamp) -> String {
    let head = ["ID", "NAME", "TEAM", "ROLES", "SCOPES", "EXPIRES", "LAST USED", "STATE"];
    let time = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
    let row = |token: &StoredToken| {
        let state = match (&token.revoked, token.expires_at) {
            (Some(revoked), _) => format!("revoked by {}", revoked.by),
            (None, Some(at)) if at <= now => "expired".to_owned(),
            (None, _) => "active".to_owned(),
        };
        let scopes = if token.scopes.is_empty() { "*" } else { &token.scopes };
        let StoredToken { id, name, team, roles, .. } = token;
        let (expires, used) = (time(token.expires_at), time(token.last_used_at));
        [id, name, team, roles, scopes, &expires, &used, &state].map(str::to_owned)
    };
    let rows: Vec<_> =
        [head.map(str::to_owned)].into_iter().chain(tokens.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: [usize; 8] = std::array::from_fn(width);
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
