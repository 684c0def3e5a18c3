//! Database URLs: `sqlite:PATH`, or `postgres://user@host/name` with one or several hosts, for example
//! `postgres://user@host-a,host-b:5433/name`.
//!
//! The password is never displayed.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use reqwest::Url;
use sqlx::postgres::PgConnectOptions;

/// A parsed database URL. Displays without its password.
#[derive(Clone)]
pub struct DatabaseUrl(pub(super) Target);

/// Database of a URL.
#[derive(Clone)]
pub(super) enum Target {
    Sqlite(PathBuf),
    /// At least one host; one of several hosts is the primary.
    Postgres(Vec<PgConnectOptions>),
}

/// An invalid database URL. The message omits the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDatabaseUrl {
    /// The URL is malformed.
    #[error(
        "invalid database URL: it {problem}; use sqlite:PATH or postgres://USER:PASSWORD@HOST:5432/NAME, with several hosts as HOST-A:5432,HOST-B:5432"
    )]
    Malformed {
        /// The problem.
        problem: String,
    },
    /// A certificate or key cannot be read.
    #[error("cannot read {parameter} {path:?} of the database URL: {reason}")]
    UnreadableFile {
        /// The parameter with the path.
        parameter: String,
        /// The path.
        path: PathBuf,
        /// The error of the file system.
        reason: String,
    },
}

impl DatabaseUrl {
    /// The SQLite database in a file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(Target::Sqlite(path.into()))
    }

    /// Whether opening the database would create it.
    pub fn is_missing(&self) -> bool {
        self.missing_from().is_some()
    }

    /// Directory of a SQLite database whose file is missing or empty.
    pub fn missing_from(&self) -> Option<&Path> {
        let Target::Sqlite(path) = &self.0 else { return None };
        let is_missing = fs::metadata(path).map_or(true, |file| file.len() == 0);
        path.parent().filter(|_| is_missing)
    }
}

impl FromStr for DatabaseUrl {
    type Err = InvalidDatabaseUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |problem: String| InvalidDatabaseUrl::Malformed { problem };
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(invalid("has no scheme".to_owned()));
        };
        match scheme {
            "sqlite" => sqlite_path(rest).map(Self::sqlite).map_err(invalid),
            "postgres" | "postgresql" => {
                let servers = postgres_servers(text).map_err(invalid)?;
                check_files(text)?;
                Ok(Self(Target::Postgres(servers)))
            }
            _ => Err(invalid("has an unknown scheme before its first `:`".to_owned())),
        }
    }
}

/// Parses the usual forms `PATH`, `//PATH` and `///PATH` after `sqlite:`.
fn sqlite_path(rest: &str) -> Result<PathBuf, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path == ":memory:" {
        return Err("has no file name".to_owned());
    }
    if path.contains('?') {
        return Err("has parameters after `?`, which sqlite: does not support".to_owned());
    }
    Ok(path.into())
}

/// Supported query parameters. The driver would log the values of unknown ones, which may be secrets.
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
/// The parameters with a certificate or key: a path, or the PEM text itself.
const FILES: [&str; 7] =
    ["ssl-ca", "ssl-cert", "ssl-key", "ssl-root-cert", "sslcert", "sslkey", "sslrootcert"];
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Connection options of each host. The primary is selected by connecting, so `target_session_attrs` may only
/// request that.
fn postgres_servers(text: &str) -> Result<Vec<PgConnectOptions>, String> {
    let (address, parameters) = text.split_once('?').unwrap_or((text, ""));
    let mut kept = Vec::new();
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "sslmode" | "ssl-mode" if !SSL_MODES.contains(&value) => {
                let modes = SSL_MODES.join(", ");
                return Err(format!("has an unknown {name}; the modes are {modes}"));
            }
            "target_session_attrs" if matches!(value, "read-write" | "primary") => continue,
            "target_session_attrs" => {
                return Err("has target_session_attrs other than read-write or primary".to_owned());
            }
            "sslmode" | "ssl-mode" => {}
            "host" | "hostaddr" | "port" if value.contains(',') => {
                return Err(format!(
                    "has several hosts in {name}; list them before the database name"
                ));
            }
            _ if PARAMETERS.contains(&name) => {}
            _ => {
                let name: String = name.chars().take(40).collect();
                return Err(format!("has the unknown parameter {name:?}"));
            }
        }
        kept.push(parameter);
    }
    let parameters = kept.join("&");
    let parse = |address: String| {
        PgConnectOptions::from_str(&format!("{address}?{parameters}"))
            .map_err(|e| format!("is malformed: {}", postgres_problem(&e)))
    };
    each_server(address).into_iter().map(parse).collect()
}

/// Reads the certificates and the key, because the error of the driver does not name them.
fn check_files(text: &str) -> Result<(), InvalidDatabaseUrl> {
    let (_, parameters) = text.split_once('?').unwrap_or((text, ""));
    let Ok(url) = Url::parse(&format!("postgres:?{parameters}")) else { return Ok(()) };
    for (parameter, value) in url.query_pairs() {
        if !FILES.contains(&&*parameter) || value.trim_start().starts_with("-----BEGIN") {
            continue;
        }
        let path = PathBuf::from(&*value);
        if let Err(e) = fs::read(&path) {
            let (parameter, reason) = (parameter.into_owned(), e.to_string());
            return Err(InvalidDatabaseUrl::UnreadableFile { parameter, path, reason });
        }
    }
    Ok(())
}

/// One URL for each host.
fn each_server(address: &str) -> Vec<String> {
    let Some((scheme, rest)) = address.split_once("://") else { return vec![address.to_owned()] };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| {
        let (user, hosts) = authority.split_at(at + 1);
        (user, hosts)
    });
    hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()
}

/// Cause of a driver error, without the URL.
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
            Target::Postgres(servers) => {
                let Some(first) = servers.first() else { return Ok(()) };
                let user = first.get_username();
                let name = first.get_database().unwrap_or(user);
                let servers: Vec<String> = servers.iter().map(server_name).collect();
                write!(f, "postgres://{user}@{}/{name}", servers.join(","))
            }
        }
    }
}

fn server_name(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => format!("[{}]", socket.display()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
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
    fn display_omits_password() {
        for (url, printed) in [
            ("sqlite:data/registry.db", "sqlite:data/registry.db"),
            ("sqlite:///var/lib/registry.db", "sqlite:/var/lib/registry.db"),
            ("postgres://ann:s3cret@db:5433/registry", "postgres://ann@db:5433/registry"),
            ("postgresql://ann:s3cret@db/registry", "postgres://ann@db:5432/registry"),
            ("postgres://ann@localhost/r?host=/run/pg", "postgres://ann@[/run/pg]/r"),
            (
                "postgres://ann:s3cret@a,b:5433/r?target_session_attrs=read-write&sslmode=require",
                "postgres://ann@a:5432,b:5433/r",
            ),
        ] {
            let parsed: DatabaseUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(format!("{parsed:?}"), printed);
        }
    }

    #[test]
    fn unreadable_certificates_are_named() {
        for parameter in ["sslrootcert", "sslcert", "sslkey"] {
            let url =
                format!("postgres://u:s3cret@h/d?sslmode=verify-full&{parameter}=no%20pe.pem");
            let problem = problem(&url);
            let named = [parameter, "\"no pe.pem\""].map(|part| problem.contains(part));
            assert!(named == [true; 2] && !problem.contains("s3cret"), "{problem}");
        }
        let inline = "postgres://h/d?sslrootcert=-----BEGIN%20CERTIFICATE-----";
        assert!(inline.parse::<DatabaseUrl>().is_ok());
    }

    #[test]
    fn invalid_url_is_rejected_without_secrets() {
        for url in ["registry.db", "sqlite:", "sqlite::memory:", "postgres:///d?host=a,b"] {
            assert!(url.parse::<DatabaseUrl>().is_err(), "{url}");
        }
        assert!(!problem("mysql://u:s3cret@h/d").contains("s3cret"));
        assert!(problem("sqlite:a.db?mode=ro").contains("parameters"));
        let unknown = problem("postgres://h/d?sslpassword=s3cret");
        assert!(unknown.contains("\"sslpassword\"") && !unknown.contains("s3cret"), "{unknown}");
        let mode = problem("postgres://h/d?sslmode=s3cret");
        assert!(mode.contains("sslmode") && !mode.contains("s3cret"), "{mode}");
        assert!("postgres://h/d?sslmode=require&host=/run".parse::<DatabaseUrl>().is_ok());
        assert!(problem("postgres://a,b/d?target_session_attrs=any").contains("read-write"));
        let bad_port = problem("postgres://ann:s3cret@db:port/registry");
        assert!(bad_port.contains("malformed") && !bad_port.contains("s3cret"), "{bad_port}");
    }
}
