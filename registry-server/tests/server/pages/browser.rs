//! A browser without scripts: cookies, links and forms.

use std::collections::BTreeMap;

use form_urlencoded::Serializer;
use http::{HeaderMap, StatusCode};
use reqwest::{Client, RequestBuilder, redirect::Policy};

/// The public URL of the pages. Requests use the address of the server.
pub(crate) const PUBLIC: &str = "https://registry.example";

#[derive(Clone)]
pub(crate) struct Browser {
    client: Client,
    server: String,
    pub(crate) cookies: BTreeMap<String, String>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Browser {
    pub(crate) fn new(address: std::net::SocketAddr) -> Self {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        Self { client, server: format!("http://{address}"), cookies: BTreeMap::new() }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        let request = self.client.get(format!("{}{path}", self.server));
        self.send(request).await
    }

    /// Follows a link of another site, which sends no strict cookie.
    pub(crate) async fn get_from_other_site(&self, path: &str) -> Answer {
        let request = self.client.get(format!("{}{path}", self.server));
        let mut other = Self { cookies: BTreeMap::new(), ..self.clone() };
        other.send(request.header("sec-fetch-site", "cross-site")).await
    }

    /// Sends a form of a page of the server.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_from(path, fields, &[PUBLIC]).await
    }

    /// Sends a form with these headers `Origin`.
    pub(crate) async fn post_from(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        origins: &[&str],
    ) -> Answer {
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self.client.post(format!("{}{path}", self.server)).body(body);
        request = request.header("content-type", "application/x-www-form-urlencoded");
        for origin in origins {
            request = request.header("origin", *origin);
        }
        self.send(request).await
    }

    async fn send(&mut self, request: RequestBuilder) -> Answer {
        let cookies: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = match &*cookies {
            [] => request,
            cookies => request.header("cookie", cookies.join("; ")),
        };
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        for line in headers.get_all("set-cookie") {
            let line = line.to_str().unwrap();
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            if line.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Answer { status, headers, body: response.text().await.unwrap() }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The texts between two others, in order.
    pub(crate) fn all_between(&self, before: &str, after: &str) -> Vec<String> {
        let parts = self.body.split(before).skip(1);
        parts.map(|part| part.split(after).next().unwrap().to_owned()).collect()
    }

    /// The tokens of the forms. The first signs out.
    pub(crate) fn form_tokens(&self) -> Vec<String> {
        self.all_between("name=\"form\" value=\"", "\"")
    }
}
