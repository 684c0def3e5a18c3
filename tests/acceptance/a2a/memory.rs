//! Requests whose parsed form is much larger than their text: memory stays within the quota of their
//! caller.

use acceptance::Gateway;
use futures_util::future::join_all;
use gateway_testkit::Server;

use super::{Agent, Scene, good_reply, skill};

const MIB: u64 = 1 << 20;
/// A caller has a quarter.
const LIMITS: &str = "limits: { bufferedBytes: 268435456 }\n";
const QUOTA: u64 = 64 * MIB;
/// For connections, the allocator, and the texts that are written.
const SLACK: u64 = 64 * MIB;
const CONCURRENT: usize = 16;

#[derive(Debug, Clone, Copy)]
enum Binding {
    JsonRpc,
    HttpJson,
    Grpc,
}

impl Binding {
    /// The path and the body of a message with this many empty objects.
    fn request(self, objects: usize) -> (&'static str, Vec<u8>) {
        let params = || {
            let objects = vec!["{}"; objects].join(",");
            format!(
                r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":[{objects}]}}],
                "metadata":{{"skillId":"work"}}}}}}"#
            )
        };
        match self {
            Self::JsonRpc => {
                let params = params();
                let call = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{params}}}"#
                );
                ("/a2a/work", call.into())
            }
            Self::HttpJson => ("/a2a/work/message:send", params().into()),
            Self::Grpc => ("/lf.a2a.v1.A2AService/SendMessage", grpc(objects)),
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::JsonRpc | Self::HttpJson => "application/json",
            Self::Grpc => "application/grpc",
        }
    }
}

/// A framed message of gRPC.
fn grpc(objects: usize) -> Vec<u8> {
    // `Value { struct_value: Struct {} }` as an item of `ListValue`.
    let list = [0x0a, 2, 0x2a, 0].repeat(objects);
    let data = field(6, &list);
    let part = field(4, &data);
    let message = [field(1, b"m"), vec![0x20, 1], field(5, &part)].concat();
    let request = [field(1, b"work"), field(2, &message)].concat();
    let length = u32::try_from(request.len()).expect("a short message");
    [&[0][..], &length.to_be_bytes(), &request].concat()
}

/// A length-delimited field of Protocol Buffers.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![(number << 3) | 2];
    let mut length = value.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).expect("7 bits") | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).expect("7 bits"));
    field.extend_from_slice(value);
    field
}

/// Returns the statuses of concurrent requests, with that of gRPC instead of 200.
async fn statuses(gateway: &Gateway, binding: Binding, objects: usize) -> Vec<String> {
    let http = match binding {
        Binding::Grpc => reqwest::Client::builder().http2_prior_knowledge().build(),
        Binding::JsonRpc | Binding::HttpJson => reqwest::Client::builder().build(),
    };
    let http = http.expect("a client");
    let (path, body) = binding.request(objects);
    let send = || async {
        let request = http.post(format!("{}{path}", gateway.url())).body(body.clone());
        let response = request
            .header("content-type", binding.media_type())
            .header("a2a-version", "1.0")
            .header("x-agent-name", "caller")
            .header("x-agent-version", "1.0.0")
            .send()
            .await
            .expect("the gateway answers");
        let status = response.headers().get("grpc-status").cloned();
        let status = status.and_then(|status| Some(status.to_str().ok()?.to_owned()));
        status.unwrap_or_else(|| response.status().as_u16().to_string())
    };
    join_all((0..CONCURRENT).map(|_| send())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn parsed_requests_stay_within_quota_in_every_binding() {
    let server = Server::start(good_reply).await;
    let url = format!("http://{}/", server.address());
    let scene = Scene::start(&[Agent::new("work", &url, vec![skill("work")])], LIMITS).await;
    let gateway = &scene.gateway;
    for binding in [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc] {
        let before = gateway.process.resident_bytes();
        let small = statuses(gateway, binding, 5000).await;
        assert!(small.iter().any(|status| status == "200"), "{binding:?}: {small:?}");
        let large = statuses(gateway, binding, 700_000).await;
        // `RESOURCE_EXHAUSTED` of gRPC.
        let is_refused = |status: &String| ["429", "8"].contains(&status.as_str());
        assert!(large.iter().all(is_refused), "{binding:?}: {large:?}");
        let grown = gateway.process.peak_bytes().saturating_sub(before);
        assert!(grown < QUOTA + SLACK, "{binding:?}: {grown} bytes");
    }
    assert!(!gateway.process.stderr().contains("panicked"));
}
