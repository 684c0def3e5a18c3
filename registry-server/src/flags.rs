//! Parsers of option values.

use clap::builder::RangedU64ValueParser;

/// Parses an integer from 1 to `max`.
pub(crate) fn at_least_one(max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max)
}

/// Parses an integer from 0 to `max`.
pub(crate) fn at_most(max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=max)
}

/// Parses a URL with HTTPS, or with HTTP on localhost.
pub(crate) fn https_url(text: &str) -> Result<String, String> {
    let url: http::Uri = text.parse().map_err(|_| format!("invalid URL `{text}`"))?;
    let is_local = matches!(url.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme_str() {
        Some("https") => Ok(text.to_owned()),
        Some("http") if is_local => Ok(text.to_owned()),
        _ => Err(format!(
            "invalid URL `{text}`: use https:// (http:// is allowed on localhost only)"
        )),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use clap::{Args, Command};

    /// Options with their default values.
    pub(crate) fn defaults<A: Args>() -> A {
        let flags = A::augment_args(Command::new("test")).get_matches_from(["test"]);
        A::from_arg_matches(&flags).unwrap()
    }
}
