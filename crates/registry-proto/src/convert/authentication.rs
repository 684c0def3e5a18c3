//! How callers were authenticated. The log and the database hold it as text.

use crate::v1;

/// Reads the text form: `token ID`, `certificate`, `oidc`, `oidc ISSUER`, `open` or `local`. Text of a newer
/// server is UNSPECIFIED, with the text as its credential.
pub fn authentication(text: &str) -> v1::Authentication {
    use v1::AuthenticationMethod as Method;
    let (word, credential) = text.split_once(' ').unwrap_or((text, ""));
    let (method, credential) = match word {
        "token" => (Method::Token, credential),
        "certificate" => (Method::Certificate, credential),
        "oidc" => (Method::Oidc, credential),
        "open" => (Method::Disabled, credential),
        "local" => (Method::Local, credential),
        _ => (Method::Unspecified, text),
    };
    v1::Authentication { method: method.into(), credential: credential.to_owned() }
}

/// Writes the text form.
pub fn authentication_text(authentication: &v1::Authentication) -> String {
    use v1::AuthenticationMethod as Method;
    let v1::Authentication { method, credential } = authentication;
    let word = match Method::try_from(*method) {
        Ok(Method::Token) => "token",
        Ok(Method::Certificate) => "certificate",
        Ok(Method::Oidc) => "oidc",
        Ok(Method::Disabled) => "open",
        Ok(Method::Local) => "local",
        Ok(Method::Unspecified) | Err(_) => return credential.clone(),
    };
    if credential.is_empty() { word.to_owned() } else { format!("{word} {credential}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authentication_text_round_trips() {
        let texts = [
            "token 4f3a",
            "certificate",
            "oidc",
            "oidc https://login.example",
            "open",
            "local",
            "x y",
        ];
        for text in texts {
            assert_eq!(authentication_text(&authentication(text)), text);
        }
    }
}
