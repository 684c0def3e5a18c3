//! Retries of calls that the registry rejects because of its rate limit.
//!
//! The registry checks the limit before it handles a call, so that a retry has no side effects.

use std::{
    future::Future,
    io::{IsTerminal as _, stderr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::time::sleep;
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt as _;
use tower::Service;

/// Maximum time that one call waits in total.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The wait if the registry names none.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// A channel that waits and retries when the rate limit is exceeded.
#[derive(Debug, Clone)]
pub(crate) struct RetryRateLimited<S>(S);

impl<S> RetryRateLimited<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self(inner)
    }

    /// The channel without retries, for calls whose request is a stream.
    pub(crate) fn inner(&self) -> &S {
        &self.0
    }
}

impl<S, B> Service<Request<Body>> for RetryRateLimited<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Send,
    S::Future: Send,
    B: Send,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The ready service is used, and its clone stays behind.
        let clone = self.0.clone();
        let mut service = std::mem::replace(&mut self.0, clone);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let message = match body.collect().await {
                Ok(message) => message.to_bytes(),
                Err(status) => {
                    let failed = Body::new(StreamBody::new(stream::iter([Err::<
                        http_body::Frame<bytes::Bytes>,
                        Status,
                    >(
                        status
                    )])));
                    return service.call(Request::from_parts(head, failed)).await;
                }
            };
            let mut waited = Duration::ZERO;
            loop {
                let body = Body::new(Full::new(message.clone()));
                let response = service.call(Request::from_parts(head.clone(), body)).await?;
                let Some(wait) = retry_delay(response.headers()) else { return Ok(response) };
                waited += wait;
                if waited > MAX_WAIT {
                    return Ok(response);
                }
                if stderr().is_terminal() {
                    eprintln!("note: rate limit exceeded; retrying in {} ms", wait.as_millis());
                }
                sleep(wait).await;
                std::future::poll_fn(|context| service.poll_ready(context)).await?;
            }
        })
    }
}

/// The time to wait, if the response is a rejection because of the rate limit.
fn retry_delay(headers: &http::HeaderMap) -> Option<Duration> {
    let status = Status::from_header_map(headers)?;
    if status.code() != Code::ResourceExhausted {
        return None;
    }
    let details = status.get_error_details();
    details.error_info().filter(|info| info.reason == "RATE_LIMITED")?;
    let delay = details.retry_info().and_then(|info| info.retry_delay);
    Some(delay.unwrap_or(DEFAULT_WAIT))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tonic_types::ErrorDetails;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    fn rejection(reason: &str, delay: Duration) -> Response<Body> {
        let mut details = ErrorDetails::with_error_info(reason, "registry", []);
        details.set_retry_info(Some(delay));
        Status::with_error_details(Code::ResourceExhausted, "too many requests", details)
            .into_http()
    }

    /// The number of calls until a response is returned.
    async fn calls(reason: &'static str, delay: Duration, rejections: usize) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let service = service_fn(move |request: Request<Body>| {
            let call = counter.fetch_add(1, Ordering::Relaxed);
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, "message");
                let response = if call < rejections {
                    rejection(reason, delay)
                } else {
                    Response::new(Body::empty())
                };
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        let request = Request::new(Body::new(Full::from("message")));
        RetryRateLimited::new(service).oneshot(request).await.unwrap();
        count.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn rate_limited_calls_are_retried() {
        assert_eq!(calls("RATE_LIMITED", Duration::from_millis(1), 2).await, 3);
    }

    #[tokio::test]
    async fn other_rejections_are_returned() {
        assert_eq!(calls("MEMORY_LIMIT", Duration::from_millis(1), 2).await, 1);
    }

    #[tokio::test]
    async fn long_waits_are_not_made() {
        assert_eq!(calls("RATE_LIMITED", 2 * MAX_WAIT, 2).await, 1);
    }
}
