//! Credentials of the gateway at upstreams: secrets in files, tokens by client credentials, and
//! exchanged tokens of callers.

mod client_credentials;
mod exchange;
mod secrets;
mod upstream;

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually, mcp::Answer};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;

use self::upstream::{TokenEndpoint, Upstream};

/// The gateway's secret at the token endpoint. It has characters that need encoding.
const SECRET: &str = "s3cret/ of+gateway";

/// A gateway with one target and its most verbose log.
fn gateway(upstream: &Upstream, target: &str, more: &str) -> Gateway {
    let example = acceptance::root().join("examples/registry-v2.json");
    let url = &upstream.url;
    let options = GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: format!(
            "targets: [{{ server: fetch-server, version: 1.2.3, http: \"{url}\", {target} }}]\n"
        ),
        runtime: Some("{ outputValidation: ignore }".to_owned()),
        more: format!("admin: 127.0.0.1:0\n{more}"),
    };
    Gateway::start_with(&options, &["--log", "trace"])
}

fn auth(grant: &str, tokens: &TokenEndpoint, more: &str) -> String {
    let (url, client) = (&tokens.url, "clientId: \"gate way\"");
    format!(
        "auth: {{ {grant}: {{ tokenUrl: \"{url}\", {client}, clientSecret: \"{SECRET}\", {more} }} }}"
    )
}

/// A client with this access token.
fn with_token(gateway: &Gateway, token: &str) -> ModernClient {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).expect("a header");
    value.set_sensitive(true);
    let headers = HeaderMap::from_iter([(reqwest::header::AUTHORIZATION, value)]);
    let http = reqwest::Client::builder().default_headers(headers).build().expect("a client");
    ModernClient::anonymous(&gateway.mcp_url()).over(http)
}

async fn fetch(client: &ModernClient) -> Answer {
    client.call("fetch", json!({ "url": "https://example.com/" })).await
}

/// Waits for the catalog and the upstream's tool list, in either order.
async fn is_up(gateway: &Gateway) {
    gateway.ready().await;
    eventually("the upstream is up", || async { gateway.targets().await.contains("\"up\"") }).await;
}

/// Asserts that no output of the gateway contains one of these secrets.
async fn assert_kept(gateway: &Gateway, secrets: &[&str]) {
    let page =
        async |url: String| reqwest::get(url).await.expect("an answer").text().await.expect("text");
    let admin = gateway.admin_url();
    let shown = [
        ("the log", gateway.process.stderr()),
        ("/metrics", page(format!("{}/metrics", gateway.url())).await),
        ("/admin/targets", gateway.targets().await),
        ("/admin/contracts", page(format!("{admin}/admin/contracts")).await),
        ("/admin/traces", page(format!("{admin}/admin/traces")).await),
    ];
    for (place, text) in &shown {
        assert!(!text.is_empty(), "{place}");
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {place}");
        }
    }
}
