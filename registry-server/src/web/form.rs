//! Fields of forms, and the tokens that bind a form to a session.

use std::borrow::Cow;

use approval::Request;
use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use registry_core::Digest;

use super::secret::{RandomFailed, random};

/// Maximum bytes of a form.
pub(super) const MAX_FORM_BYTES: usize = 64 * 1024;

/// Decoded fields of a form or query.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    /// Decodes `application/x-www-form-urlencoded`.
    pub(super) fn parse(text: &'a [u8]) -> Self {
        Self(form_urlencoded::parse(text).collect())
    }

    /// The value of a field. `None` if it is missing or repeated.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        let mut values = self.all(name);
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// All values of a field.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| &**value)
    }
}

/// A form that changes something.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    /// Signs out.
    SignOut,
    /// Decides about a request. The token covers the digest of what the person has seen.
    Decision(&'a Request),
}

/// The key of form tokens. A restart ends all sessions, so it needs no storage.
pub(super) struct FormKey(hmac::Key);

impl FormKey {
    /// A random key.
    pub(super) fn generate() -> Result<Self, RandomFailed> {
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &random()?)))
    }

    /// The token of a form in a session.
    pub(super) fn token(&self, session: &Digest, form: Form<'_>) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, &message(session, form)))
    }

    /// Whether the token belongs to the form and session, compared in constant time.
    pub(super) fn accepts(&self, token: &str, session: &Digest, form: Form<'_>) -> bool {
        let tag = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        hmac::verify(&self.0, &message(session, form), &tag).is_ok()
    }
}

/// The signed bytes. Each part has a fixed length.
fn message(session: &Digest, form: Form<'_>) -> Vec<u8> {
    match form {
        Form::SignOut => [b"sign-out", &session.as_bytes()[..]].concat(),
        Form::Decision(request) => {
            let (id, key) = (request.id.to_string(), request.key());
            [b"decision", &session.as_bytes()[..], id.as_bytes(), key.as_bytes()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::testing::request;

    #[test]
    fn form_token_is_bound_to_session_and_request() {
        let key = FormKey::generate().unwrap();
        let (session, other) = (Digest::compute(b"a"), Digest::compute(b"b"));
        let shown = request(1);
        let token = key.token(&session, Form::Decision(&shown));
        assert!(key.accepts(&token, &session, Form::Decision(&shown)));
        assert!(!key.accepts(&token, &other, Form::Decision(&shown)), "another session");
        assert!(!key.accepts(&token, &session, Form::Decision(&request(2))), "another request");
        assert!(!key.accepts(&token, &session, Form::SignOut), "another form");
        let mut changed = request(1);
        changed.binding.arguments = Digest::compute(b"other arguments");
        assert!(!key.accepts(&token, &session, Form::Decision(&changed)), "another digest");
        let restarted = FormKey::generate().unwrap();
        assert!(!restarted.accepts(&token, &session, Form::Decision(&shown)));
        for invalid in ["", "?", &token[1..]] {
            assert!(!key.accepts(invalid, &session, Form::Decision(&shown)), "{invalid}");
        }
    }

    #[test]
    fn repeated_field_has_no_single_value() {
        let fields = Fields::parse(b"a=1&b=%3C+x&a=2");
        assert_eq!((fields.one("a"), fields.one("b"), fields.one("c")), (None, Some("< x"), None));
        assert_eq!(fields.all("a").collect::<Vec<_>>(), ["1", "2"]);
    }
}
