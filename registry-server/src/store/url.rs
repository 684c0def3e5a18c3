//! Which database: `sqlite:PATH` or `postgres://user@host/name`.
//!
//! The password is kept out of everything that prints. Deliberately absent: connecting.

use std::{fmt, path::PathBuf, str::FromStr};

use sqlx::postgres::PgConnectOptions;

/// A parsed database URL. Prints without its password.
#[derive(Clone)]
pub struct DatabaseUrl(pub(super) Target);

/// What a URL points at.
#[derive(Clone)]
pub(super) enum Target {
    Sqlite(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

/// Why a text is no database URL. Never repeats the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the database URL {problem}; write sqlite:PATH or postgres://user:password@host:5432/name")]
pub struct InvalidDatabaseUrl {
    problem: String,
}

impl DatabaseUrl {
    /// The SQLite database in this file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(Target::Sqlite(path.into()))
    }

    /// Whether to open it would make it: there is no such file.
    pub fn is_missing(&self) -> bool {
        match &self.0 {
            Target::Sqlite(path) => !path.exists(),
            Target::Postgres(_) => false,
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = InvalidDatabaseUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |problem: String| InvalidDatabaseUrl { problem };
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(invalid("has no scheme".to_owned()));
        };
        match scheme {
            "sqlite" => sqlite_path(rest).map(Self::sqlite).map_err(invalid),
            "postgres" | "postgresql" => postgres_options(text)
                .map(|options| Self(Target::Postgres(Box::new(options))))
                .map_err(invalid),
            _ => Err(invalid("has an unknown scheme before its first `:`".to_owned())),
        }
    }
}

/// `PATH`, `//PATH` and `///PATH` as they are usually written after `sqlite:`.
fn sqlite_path(rest: &str) -> Result<PathBuf, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path == ":memory:" {
        return Err("names no file".to_owned());
    }
    if path.contains('?') {
        return Err("has parameters after `?`, which sqlite: does not take".to_owned());
    }
    Ok(path.into())
}

/// What the driver takes after `?`; it would print the values of others, which may be secrets.
const PARAMETERS: [&str; 16] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

fn postgres_options(text: &str) -> Result<PgConnectOptions, String> {
    let parameters = text.split_once('?').map_or("", |(_, parameters)| parameters);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_mode = matches!(name, "sslmode" | "ssl-mode");
        if is_mode && !SSL_MODES.contains(&value) {
            return Err(format!("has an unknown {name}; the modes are {}", SSL_MODES.join(", ")));
        }
        if !is_mode && !PARAMETERS.contains(&name) {
            let name: String = name.chars().take(40).collect();
            return Err(format!("has the parameter {name:?}, which is not known"));
        }
    }
    PgConnectOptions::from_str(text)
        .map_err(|e| format!("cannot be read: {}", postgres_problem(&e)))
}

/// The cause without the URL around it.
fn postgres_problem(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Configuration(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Target::Postgres(options) => {
                let user = options.get_username();
                let name = options.get_database().unwrap_or(user);
                if let Some(socket) = options.get_socket() {
                    return write!(f, "postgres://{user}@[{}]/{name}", socket.display());
                }
                let (host, port) = (options.get_host(), options.get_port());
                write!(f, "postgres://{user}@{host}:{port}/{name}")
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        text.parse::<DatabaseUrl>().unwrap_err().to_string()
    }

    #[test]
    fn prints_no_password() {
        for (url, printed) in [
            ("sqlite:data/registry.db", "sqlite:data/registry.db"),
            ("sqlite:///var/lib/registry.db", "sqlite:/var/lib/registry.db"),
            ("postgres://ann:s3cret@db:5433/registry", "postgres://ann@db:5433/registry"),
            ("postgresql://ann:s3cret@db/registry", "postgres://ann@db:5432/registry"),
            ("postgres://ann@localhost/r?host=/run/pg", "postgres://ann@[/run/pg]/r"),
        ] {
            let parsed: DatabaseUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(format!("{parsed:?}"), printed);
        }
    }

    #[test]
    fn refuses_what_names_no_database() {
        assert!(problem("registry.db").contains("no scheme"));
        assert!(problem("mysql://u:s3cret@h/d").contains("unknown scheme"));
        assert!(problem("sqlite:").contains("names no file"));
        assert!(problem("sqlite::memory:").contains("names no file"));
        assert!(problem("sqlite:a.db?mode=ro").contains("parameters"));
        let unknown = problem("postgres://h/d?sslpassword=s3cret");
        assert!(unknown.contains("\"sslpassword\"") && !unknown.contains("s3cret"), "{unknown}");
        let mode = problem("postgres://h/d?sslmode=s3cret");
        assert!(mode.contains("unknown sslmode") && !mode.contains("s3cret"), "{mode}");
        assert!("postgres://h/d?sslmode=require&host=/run".parse::<DatabaseUrl>().is_ok());
        let bad_port = problem("postgres://ann:s3cret@db:port/registry");
        assert!(bad_port.contains("cannot be read") && !bad_port.contains("s3cret"), "{bad_port}");
    }
}
