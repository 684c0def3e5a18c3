//! The routes of a listener.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, extract::Request, response::Response, routing::future::RouteFuture};
use futures_util::future::{BoxFuture, Either};
use http::Method;
use tower::Service as _;

use crate::{
    a2a::{self, A2a},
    identity::sender::{RequestHead, RequestSender},
    ingress::{is_of_page, response_to_program},
    mcp::{self, Mcp},
};

/// The response of a route.
pub(super) type Routed =
    Either<BoxFuture<'static, Result<Response, Infallible>>, RouteFuture<Infallible>>;

/// The routes of a listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Routes(Arc<Table>);

#[derive(Debug)]
struct Table {
    router: Router,
    /// The surfaces whose calls bypass the router.
    surfaces: Option<(Mcp, A2a)>,
}

impl From<Router> for Routes {
    fn from(router: Router) -> Self {
        Self(Arc::new(Table { router, surfaces: None }))
    }
}

impl Routes {
    /// The routes of a router that contains those of two surfaces.
    pub(super) fn with_calls(router: Router, surfaces: (Mcp, A2a)) -> Self {
        Self(Arc::new(Table { router, surfaces: Some(surfaces) }))
    }

    /// Serves a request. Calls of programs bypass the router, which clones the boxed services of a
    /// route for each request, boxes their futures, and stores the parameters of the path and the sender
    /// as extensions.
    pub(super) fn call(&self, mut request: Request, sender: RequestSender) -> Routed {
        let Table { router, surfaces } = &*self.0;
        let is_call = request.method() == Method::POST && !is_of_page(&request);
        let path = request.uri().path();
        match surfaces.as_ref().filter(|_| is_call) {
            Some((mcp, _)) if mcp::has_path(path) => {
                let (parts, body) = request.into_parts();
                let parts = RequestHead { parts, sender };
                Either::Left(response_to_program(mcp::receive_from(mcp.clone(), parts, body)))
            }
            Some((_, a2a)) if a2a::has_path(path) => {
                let (parts, body) = request.into_parts();
                let parts = RequestHead { parts, sender };
                Either::Left(response_to_program(a2a::receive_from(a2a.clone(), parts, body)))
            }
            _ => {
                request.extensions_mut().insert(sender);
                Either::Right(router.clone().call(request))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::header::CONTENT_LENGTH;

    use super::*;
    use crate::mcp::tests::harness::Bench;

    fn request(method: &str, path: &str, origin: Option<&str>) -> Request {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
        request.body(Body::from(call)).unwrap()
    }

    #[tokio::test]
    async fn bypassed_router_gives_same_responses() {
        let bench = Bench::strict(Vec::new()).await;
        let mcp = Mcp::new(bench.handle.clone());
        let a2a = A2a::new(bench.handle.clone(), Arc::default(), Arc::default());
        let router = mcp.router().merge(a2a.router());
        let both = [Routes::from(router.clone()), Routes::with_calls(router, (mcp, a2a))];
        for (method, path, is_call) in [
            ("POST", "/mcp", true),
            ("POST", "/mcp/", true),
            ("POST", "/a2a", true),
            ("POST", "/a2a/", true),
            ("POST", "/a2a/helper", true),
            ("POST", "/a2a/helper/v1/message:send", true),
            ("POST", "/a2a//", true),
            ("POST", "/a2a/%ff", true),
            ("POST", "/mcp/x", false),
            ("POST", "/mcpx", false),
            ("POST", "/a2ax", false),
            ("PUT", "/mcp", false),
            ("GET", "/mcp", false),
            ("GET", "/a2a/helper", false),
            ("HEAD", "/a2a/helper/.well-known/agent-card.json", false),
            ("OPTIONS", "/mcp", false),
        ] {
            for origin in [None, Some("http://localhost"), Some("https://evil.example")] {
                let mut responses = Vec::new();
                for routes in &both {
                    let response =
                        routes.call(request(method, path, origin), RequestSender::default());
                    let response = response.await.unwrap();
                    let (parts, body) = response.into_parts();
                    let body = to_bytes(body, usize::MAX).await.unwrap();
                    responses.push((parts.status, parts.headers, body));
                }
                let case = format!("{method} {path} {origin:?}");
                // The router adds the length, which connections add otherwise.
                let bypassed = !responses[1].1.contains_key(CONTENT_LENGTH);
                assert!(bypassed || !is_call || origin.is_some(), "{case}");
                for (_, headers, _) in &mut responses {
                    headers.remove(CONTENT_LENGTH);
                }
                assert_eq!(responses[0], responses[1], "{case}");
            }
        }
    }
}
