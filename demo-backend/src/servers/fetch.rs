//! `fetch-server`: a handful of built-in pages. The server has no network access: it refuses a URL
//! that is not built in.

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hosted_server::Domain;
use crate::tool_error::ToolError;

/// The fetch server. Its pages are constants.
#[derive(Debug, Clone, Copy)]
pub struct Fetch;

struct Page {
    url: &'static str,
    title: &'static str,
    content: &'static str,
}

const PAGES: [Page; 4] = [
    Page {
        url: "https://example.com",
        title: "Example Domain",
        content: "This domain is for use in illustrative examples in documents. You may use this \
                  domain in literature without prior coordination or asking for permission.",
    },
    Page {
        url: "https://example.com/mcp",
        title: "Model Context Protocol in five minutes",
        content: "The Model Context Protocol lets an assistant list the tools of a server and \
                  call them. A tool has a name, a description and schemas for what goes in and \
                  out. A registry adds versions; a gateway enforces them.",
    },
    Page {
        url: "https://example.org/quantum",
        title: "State of quantum computing",
        content: "Machines with a few hundred noisy qubits exist. Error correction has been shown \
                  on small codes. Useful chemistry is expected before useful cryptanalysis.",
    },
    Page {
        url: "https://example.org/electric-vehicles",
        title: "Electric vehicles, a market overview",
        content: "Sales grow in every region. Battery cost per kilowatt hour fell again, and \
                  charging networks have doubled in three years.",
    },
];

/// The page to fetch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FetchRequest {
    /// The page's address.
    #[schemars(extend("format" = "uri"))]
    pub url: String,
    /// Characters of content to return at most.
    #[schemars(range(min = 1))]
    pub max_length: Option<usize>,
}

/// A page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FetchedPage {
    /// The requested URL.
    #[schemars(extend("format" = "uri"))]
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub content: String,
    /// The media type of the content.
    pub content_type: String,
    /// Whether maxLength cut the content.
    pub truncated: bool,
}

impl Domain for Fetch {
    const NAME: &'static str = "fetch-server";
    const VERSION: &'static str = "1.2.3";
    const PATH: &'static str = "/fetch/mcp";
    const INSTRUCTIONS: &'static str =
        "Fetch one of the built-in pages; an unknown URL is refused with the list of them.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Fetch {
    /// Fetch a web page as text.
    #[tool(annotations(
        title = "Fetch",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = true
    ))]
    fn fetch(
        Parameters(request): Parameters<FetchRequest>,
    ) -> Result<Json<FetchedPage>, ToolError> {
        let wanted = request.url.split('#').next().unwrap_or_default().trim_end_matches('/');
        let Some(page) = PAGES.iter().find(|page| page.url == wanted) else {
            return Err(unknown(&request.url));
        };
        let limit = request.max_length.unwrap_or(usize::MAX);
        let content: String = page.content.chars().take(limit).collect();
        Ok(Json(FetchedPage {
            url: request.url,
            title: page.title.to_owned(),
            truncated: content.len() < page.content.len(),
            content,
            content_type: "text/plain".to_owned(),
        }))
    }
}

fn unknown(url: &str) -> ToolError {
    let known: Vec<&str> = PAGES.iter().map(|page| page.url).collect();
    ToolError::new("not_found", format!("cannot fetch {url:?}; known pages: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(url: &str, max_length: Option<usize>) -> Result<FetchedPage, ToolError> {
        let request = FetchRequest { url: url.to_owned(), max_length };
        Fetch::fetch(Parameters(request)).map(|page| page.0)
    }

    #[test]
    fn known_page_has_its_title() {
        let page = fetch("https://example.com/", None).unwrap();
        assert_eq!((page.title.as_str(), page.truncated), ("Example Domain", false));
        assert_eq!(page.url, "https://example.com/");
        assert!(fetch("https://example.com/mcp#tools", None).is_ok());
    }

    #[test]
    fn maximum_length_truncates_content() {
        let page = fetch("https://example.com/mcp", Some(10)).unwrap();
        assert_eq!((page.content.as_str(), page.truncated), ("The Model ", true));
    }

    #[test]
    fn unknown_page_is_rejected_with_known_pages() {
        for url in ["https://example.net/", "http://127.0.0.1/", "file:///etc/passwd", ""] {
            let error = fetch(url, None).unwrap_err();
            assert_eq!(error.code, "not_found");
            assert!(error.message.contains("https://example.com/mcp"), "{}", error.message);
        }
    }
}
