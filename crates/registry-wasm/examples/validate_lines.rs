//! Native rules for the fuzz test of `registry-dsl`: reads lines of `{"text"}` and writes lines of
//! `{"diagnostics"}`. `make dsl-fuzz` runs it.

use std::io::{self, BufRead as _, Write as _};

use serde::Deserialize;

#[derive(Deserialize)]
struct Request {
    text: String,
}

fn main() -> io::Result<()> {
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Request { text } = serde_json::from_str(&line?)?;
        let answer = registry_rules::validate(text.as_bytes());
        // For `readline` of Node.js, these separators end a line.
        let answer = String::from_utf8_lossy(&answer).replace('\u{2028}', "\\u2028");
        writeln!(answers, "{}", answer.replace('\u{2029}', "\\u2029"))?;
        answers.flush()?;
    }
    Ok(())
}
