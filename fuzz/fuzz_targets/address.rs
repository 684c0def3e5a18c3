//! Registry addresses: parsing never panics, and each parsed server has a host, a port and no more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_follow::{MAX_SERVERS, addresses};
use tonic::transport::{Endpoint, Uri};

fuzz_target!(|text: &str| {
    let Ok(servers) = addresses(text) else { return };
    assert!((1..=MAX_SERVERS).contains(&servers.len()));
    for server in &servers {
        let uri: Uri = server.parse().expect("an address");
        assert!(uri.host().is_some_and(|host| !host.is_empty()), "{server}");
        assert!(uri.port_u16().is_some() && !server.contains(['@', ',']), "{server}");
        assert!(matches!(uri.path(), "" | "/") && uri.query().is_none(), "{server}");
        assert!(Endpoint::from_shared(server.clone()).is_ok(), "{server}");
    }
    let (scheme, _) = servers[0].split_once("://").expect("a URL");
    let scheme = scheme.replace("http", "grpc");
    let hosts = servers.iter().filter_map(|server| server.split_once("://"));
    let hosts: Vec<&str> = hosts.map(|(_, host)| host).collect();
    assert_eq!(addresses(&format!("{scheme}://{}", hosts.join(","))), Ok(servers));
});
