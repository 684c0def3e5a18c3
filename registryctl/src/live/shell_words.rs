//! Splits a command line into words, with the quotes and backslashes of a shell.
//!
//! Variables, wildcards and pipes are not supported: no shell is started.

pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match (character, quote) {
            ('\0', _) => return Err("the command contains a NUL character".to_owned()),
            (end, Some(open)) if end == open => quote = None,
            ('\\', None | Some('"')) => {
                let next = rest.next().ok_or("the command ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the command has an unclosed {open}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_in_a_shell() {
        let words = |text| split(text).unwrap();
        assert_eq!(words("npx -y  server"), ["npx", "-y", "server"]);
        assert_eq!(words(r#"a 'b c' "d\"e" f\ g ''"#), ["a", "b c", "d\"e", "f g", ""]);
        assert_eq!(words("x$HOME;y|z"), ["x$HOME;y|z"]);
        assert_eq!(words("  "), <[&str; 0]>::default());
        assert!(split("a 'b").unwrap_err().contains("unclosed '"));
        assert!(split("a\\").is_err() && split("a\0").is_err());
    }
}
