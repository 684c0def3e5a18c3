//! HTML pages. Markup comes from the program only; each other value is escaped.

use std::fmt::Display;

use axum::response::{Html as HtmlBody, IntoResponse as _, Response};
use http::StatusCode;
use registry_core::visible::escape_invisible;

/// A page, or a part of one.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup. Its type excludes values of requests.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds a value as text or within a quoted attribute. Invisible and bidirectional characters, which could
    /// disguise a value, are shown as escapes.
    pub(super) fn text(&mut self, value: impl Display) -> &mut Self {
        for character in escape_invisible(value.to_string()).chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Adds another part.
    pub(super) fn part(&mut self, part: &Self) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }
}

/// The content of a page and its frame.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The title and first heading.
    pub(super) title: String,
    /// The path that the browser opens at once.
    pub(super) forward: Option<String>,
    /// The account and the form that signs out.
    pub(super) header: Html,
    /// The content below the heading.
    pub(super) content: Html,
}

impl Page {
    /// The response with this page.
    pub(super) fn respond(&self, status: StatusCode) -> Response {
        let mut page = Html::default();
        page.markup(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n",
        );
        if let Some(path) = &self.forward {
            page.markup("<meta http-equiv=\"refresh\" content=\"0; url=").text(path);
            page.markup("\">\n");
        }
        page.markup("<title>").text(&self.title).markup(" – Registry</title>\n");
        page.markup(
            "<link rel=\"stylesheet\" href=\"/approvals/style.css\">\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <header>\n<a href=\"/approvals\">Approvals</a>\n",
        );
        page.part(&self.header).markup("</header>\n<main id=\"main\">\n<h1>").text(&self.title);
        page.markup("</h1>\n").part(&self.content).markup("</main>\n</body>\n</html>\n");
        (status, HtmlBody(page.0)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(value: &str) -> String {
        let mut html = Html::default();
        html.text(value);
        html.0
    }

    #[test]
    fn markup_in_values_is_escaped() {
        let text = escaped("<a href='x' title=\"y\">&amp;");
        assert_eq!(text, "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;amp;");
    }

    #[test]
    fn invisible_and_bidirectional_characters_are_visible() {
        assert_eq!(escaped("a\u{202e}b\u{200b}\n\u{2066}"), r"a\u{202e}b\u{200b}\n\u{2066}");
    }

    proptest! {
        #[test]
        fn escaped_value_has_no_markup(value in "(\\PC|[<>&\"'\u{202e}\0\n]){0,100}") {
            let text = escaped(&value);
            prop_assert!(!text.contains(['<', '>', '"', '\'', '\u{202e}', '\0', '\n']), "{text}");
        }
    }
}
