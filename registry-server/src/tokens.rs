//! `registry-server token …`: tokens, straight in the database.
//!
//! The text of a new token goes to standard output and nowhere else. JSON output is not supported:
//! scripts use `registryctl token`.

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
        page::Page,
        tokens::{self, Error},
    },
    clock::{Clock as _, SystemClock},
    config::TokenCommand,
    store::{self, Store, StoredToken, Which},
};

use super::{DATABASE, FAILED, USAGE};

/// How many tokens are read at once.
const PAGE: usize = 1_000;

type Failure = (u8, String);

/// Does what the command says.
pub(super) async fn run(config: &Config, command: TokenCommand) -> Result<ExitCode, Failure> {
    let url = config.database_url().map_err(|e| usage(&e))?;
    let is_new = url.is_missing();
    if is_new && !matches!(command, TokenCommand::Create { .. }) {
        let help = "check --data-dir and --database, which are those of the server";
        return Err((DATABASE, format!("there is no database {url}; {help}")));
    }
    let url = config.database().map_err(|e| usage(&e))?;
    let store = Store::open_beside(&url).await.map_err(|e| (DATABASE, e.to_string()))?;
    let (by, now) = (Principal::local(&config.user), SystemClock.now());
    let done = match command {
        TokenCommand::Create { name, team, roles, scopes, expires } => {
            let wanted = NewToken {
                team: team.unwrap_or_else(|| name.clone()),
                name,
                roles: roles.into_iter().collect(),
                scopes: Scopes::read(&scopes).map_err(|e| usage(&e))?,
                expires_at: parse_expiry(&expires, now).map_err(|e| usage(&e))?,
            };
            let is_first = is_first(&store).await.map_err(|e| failure(&e.into()))?;
            let (secret, token) =
                tokens::create(&store, &by, wanted, now).await.map_err(|e| failure(&e))?;
            if is_new {
                eprintln!("made the database {url}; a server must use the same to know the token");
            } else if is_first {
                eprintln!(
                    "a server that runs without asking for tokens asks from its next start on: restart it"
                );
            }
            let end = token.expires_at.map_or("never".to_owned(), |at| at.to_string());
            eprintln!("token {} for {}; it expires: {end}; keep it now:", token.id, token.name);
            writeln!(io::stdout(), "{}", secret.expose())
        }
        TokenCommand::List { all } => {
            let which = if all { Which::All } else { Which::Live(now) };
            let tokens = all_pages(&store, which).await.map_err(|e| failure(&e))?;
            io::stdout().write_all(table(&tokens, now).as_bytes())
        }
        TokenCommand::Revoke { id } => {
            tokens::revoke(&store, &by, &id, now).await.map_err(|e| failure(&e))?;
            writeln!(io::stdout(), "revoked {id}; every server refuses it within seconds")
        }
    };
    store.close().await;
    done.map(|()| ExitCode::SUCCESS).map_err(|e| (FAILED, format!("cannot write the output: {e}")))
}

/// Whether a server that runs on this database may be an open one: there was no token yet.
async fn is_first(store: &Store) -> Result<bool, store::Error> {
    let tokens = Tokens::open(store.clone(), Arc::new(SystemClock)).await?;
    Ok(tokens.issued().await? == Issued::Never)
}

async fn all_pages(store: &Store, which: Which) -> Result<Vec<StoredToken>, Error> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let Page { items, next_page_token } = tokens::list(store, which, PAGE, &next).await?;
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
    (code, error.to_string())
}

fn table(tokens: &[StoredToken], now: Timestamp) -> String {
    let head = ["ID", "NAME", "TEAM", "ROLES", "SCOPES", "EXPIRES", "LAST USED", "STATE"];
    let time = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
    let row = |token: &StoredToken| {
        let state = match (&token.revoked, token.expires_at) {
            (Some(revoked), _) => format!("revoked by {}", revoked.by),
            (None, Some(at)) if at <= now => "expired".to_owned(),
            (None, _) => "live".to_owned(),
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
