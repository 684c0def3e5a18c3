//! The cookies of sessions and of pending sign-ins.
//!
//! The prefix `__Host-` excludes cookies that other hosts of the domain have set. Over plain HTTP, which is only
//! possible on loopback, browsers accept neither the prefix nor `Secure`.

use http::{HeaderMap, HeaderValue, header::COOKIE};

use super::pending::SIGN_IN_SECONDS;

/// A cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The id of a session. Requests of other sites do not have it.
    Session,
    /// The state of a pending sign-in. The redirect of the identity provider comes from another site and needs it.
    SignIn,
}

/// Reads and writes cookies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cookies {
    /// Whether browsers use HTTPS.
    pub(super) is_secure: bool,
}

impl Cookies {
    /// The value of a cookie. `None` if there are several: one of them may come from an attacker.
    pub(super) fn read(self, headers: &HeaderMap, cookie: Cookie) -> Option<&str> {
        let name = self.name(cookie);
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// The header that stores a cookie. The value has characters of base64url only.
    pub(super) fn set(self, cookie: Cookie, value: &str) -> HeaderValue {
        let lifetime = match cookie {
            Cookie::Session => String::new(),
            Cookie::SignIn => format!("; Max-Age={SIGN_IN_SECONDS}"),
        };
        self.header(cookie, value, &lifetime)
    }

    /// The header that deletes a cookie.
    pub(super) fn clear(self, cookie: Cookie) -> HeaderValue {
        self.header(cookie, "", "; Max-Age=0")
    }

    fn name(self, cookie: Cookie) -> &'static str {
        match (cookie, self.is_secure) {
            (Cookie::Session, true) => "__Host-registry-session",
            (Cookie::Session, false) => "registry-session",
            (Cookie::SignIn, true) => "__Host-registry-sign-in",
            (Cookie::SignIn, false) => "registry-sign-in",
        }
    }

    fn header(self, cookie: Cookie, value: &str, lifetime: &str) -> HeaderValue {
        let name = self.name(cookie);
        let secure = if self.is_secure { "; Secure" } else { "" };
        let site = if cookie == Cookie::Session { "Strict" } else { "Lax" };
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={site}{secure}{lifetime}");
        // Only an invalid value fails. Without its cookie, the browser stays signed out.
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(is_secure: bool, lines: &[&'static str]) -> Option<String> {
        let lines = lines.iter().map(|line| (COOKIE, HeaderValue::from_static(line)));
        let headers: HeaderMap = lines.collect();
        Cookies { is_secure }.read(&headers, Cookie::Session).map(str::to_owned)
    }

    #[test]
    fn session_cookie_is_strict_and_bound_to_host() {
        let cookie = |is_secure| Cookies { is_secure }.set(Cookie::Session, "abc");
        assert_eq!(
            cookie(true),
            "__Host-registry-session=abc; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(cookie(false), "registry-session=abc; Path=/; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn pending_sign_in_cookie_expires_after_ten_minutes() {
        let cookies = Cookies { is_secure: true };
        assert_eq!(
            cookies.set(Cookie::SignIn, "abc"),
            "__Host-registry-sign-in=abc; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=600"
        );
        assert_eq!(
            cookies.clear(Cookie::SignIn),
            "__Host-registry-sign-in=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=0"
        );
    }

    #[test]
    fn cookie_is_read_by_its_exact_name() {
        let value = Some("1".to_owned());
        assert_eq!(read(true, &["a=b; __Host-registry-session=1; c=d"]), value);
        assert_eq!(read(true, &["a=b", "__Host-registry-session=1"]), value, "HTTP/2 splits lines");
        assert_eq!(read(true, &["registry-session=1"]), None, "another host can set this name");
        assert_eq!(read(false, &["registry-session=1"]), value);
        assert_eq!(read(true, &["__host-registry-session=1"]), None);
    }

    #[test]
    fn repeated_cookie_is_rejected() {
        assert_eq!(read(false, &["registry-session=1; registry-session=2"]), None);
        assert_eq!(read(false, &["registry-session=1", "registry-session=1"]), None);
    }
}
