//! CORS for the requests of web pages.
//!
//! The library's layer computes its headers for each request. Requests of programs, which have no
//! `Origin`, bypass it.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{extract::Request, response::Response};
use futures_util::{
    FutureExt as _, TryFutureExt as _,
    future::{BoxFuture, Either, MapOk},
};
use http::{
    HeaderName, HeaderValue, Method,
    header::{ORIGIN, VARY},
    request::Parts,
};
use tower::{Layer, Service};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer, ResponseFuture};

use crate::pipeline::GatewayHandle;

/// Maximum time that browsers cache a preflight response.
const PREFLIGHT: Duration = Duration::from_mins(10);
/// The headers of requests that the response depends on, as the library names them.
const VARYING: &str = "origin, access-control-request-headers";

/// Allows pages of `allowedOrigins` to call, and to read the exposed headers of responses.
#[derive(Debug, Clone)]
pub(crate) struct PageCors(Arc<CorsLayer>);

impl PageCors {
    /// The list of origins is read per request, because a reload can change it.
    pub(crate) fn new(gateway: GatewayHandle, methods: &[Method], exposed: &[HeaderName]) -> Self {
        let is_listed = move |origin: &HeaderValue, _: &Parts| {
            gateway.read(|gateway| gateway.settings().origins.is_listed(origin.as_bytes()))
        };
        Self::with(is_listed, methods, exposed)
    }

    fn with(
        is_allowed: impl Fn(&HeaderValue, &Parts) -> bool + Send + Sync + 'static,
        methods: &[Method],
        exposed: &[HeaderName],
    ) -> Self {
        let layer = CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(is_allowed))
            .allow_methods(methods.to_vec())
            // `Mcp-Param-*` headers have arbitrary names.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(exposed.to_vec())
            .max_age(PREFLIGHT);
        Self(Arc::new(layer))
    }
}

impl<S> Layer<S> for PageCors {
    type Service = WithPageCors<S>;

    fn layer(&self, routes: S) -> WithPageCors<S> {
        WithPageCors { routes, cors: self.clone() }
    }
}

/// Routes with [`PageCors`].
#[derive(Debug, Clone)]
pub(crate) struct WithPageCors<S> {
    routes: S,
    cors: PageCors,
}

impl<S> Service<Request> for WithPageCors<S>
where
    S: Service<Request, Response = Response> + Clone,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, MapOk<S::Future, fn(Response) -> Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.routes.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if is_of_page(&request) {
            Either::Left(self.cors.0.layer(self.routes.clone()).call(request))
        } else {
            Either::Right(self.routes.call(request).map_ok(with_vary as fn(Response) -> Response))
        }
    }
}

/// Whether a request can come from a web page.
pub(crate) fn is_of_page(request: &Request) -> bool {
    request.headers().contains_key(ORIGIN) || request.method() == Method::OPTIONS
}

/// The response to a program by a surface, as [`PageCors`] returns it.
pub(crate) fn response_to_program(
    response: impl Future<Output = Response> + Send + 'static,
) -> BoxFuture<'static, Result<Response, Infallible>> {
    Box::pin(response.map(|response| Ok(with_vary(response))))
}

fn with_vary(mut response: Response) -> Response {
    response.headers_mut().append(VARY, HeaderValue::from_static(VARYING));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    /// A cache must not return the response to a program to a page.
    #[tokio::test]
    async fn responses_to_pages_and_programs_vary_alike() {
        let routes = service_fn(|_: Request| async { Ok::<_, Infallible>(Response::default()) });
        let routes = PageCors::with(|_, _| true, &[Method::GET], &[ORIGIN]).layer(routes);
        for origin in [None, Some("https://page.example")] {
            let mut request = Request::new(Body::empty());
            if let Some(origin) = origin {
                request.headers_mut().insert(ORIGIN, HeaderValue::from_static(origin));
            }
            let response = routes.clone().oneshot(request).await.unwrap();
            assert_eq!(response.headers()[VARY], VARYING, "{origin:?}");
        }
    }
}
