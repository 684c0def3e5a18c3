//! The servers of this process. Each module is one server with its tools, state and seed data.

pub mod bench;
pub mod bench_many;
pub mod documents;
pub mod fetch;
pub mod inventory;
pub mod memory;
pub mod notifications;
pub mod payment;
pub mod shipping;
pub mod tasks;
pub mod time;
pub mod users;

use crate::clock::Clock;
use crate::hosted_server::HostedServer;

/// Every server, with fresh state.
pub fn all(clock: Clock) -> Vec<HostedServer> {
    vec![
        HostedServer::new(documents::Documents::new(clock)),
        HostedServer::new(tasks::Tasks::new(clock)),
        HostedServer::new(users::Users),
        HostedServer::new(notifications::Notifications::new(clock)),
        HostedServer::new(fetch::Fetch),
        HostedServer::new(memory::Memory::new()),
        HostedServer::new(time::Time::new(clock)),
        HostedServer::new(inventory::Inventory::new()),
        HostedServer::new(payment::Payment::new()),
        HostedServer::new(shipping::Shipping::new(clock)),
        HostedServer::new(bench::Bench),
        HostedServer::new(bench_many::BenchMany),
    ]
}

/// The server of this name, with fresh state.
pub fn find(name: &str, clock: Clock) -> Option<HostedServer> {
    all(clock).into_iter().find(|server| server.name() == name)
}

/// Names of the servers that `--stdio` offers.
pub fn stdio_names() -> Vec<&'static str> {
    let servers = all(Clock::System);
    servers.iter().filter(|server| server.offers_stdio()).map(HostedServer::name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_paths_and_tools_are_distinct() {
        let servers = all(Clock::System);
        let names: HashSet<_> = servers.iter().map(HostedServer::name).collect();
        let paths: HashSet<_> = servers.iter().map(HostedServer::path).collect();
        assert_eq!((names.len(), paths.len()), (12, 12));
        let tools: Vec<_> = servers.iter().flat_map(HostedServer::tools).map(|t| &t.name).collect();
        assert_eq!(tools.iter().collect::<HashSet<_>>().len(), tools.len());
    }

    #[test]
    fn tool_descriptions_are_complete() {
        for server in all(Clock::System) {
            for tool in server.tools() {
                let annotations = tool.annotations.as_ref().expect("annotations");
                assert!(annotations.read_only_hint.is_some(), "{}", tool.name);
                assert!(annotations.destructive_hint.is_some(), "{}", tool.name);
                assert!(annotations.idempotent_hint.is_some(), "{}", tool.name);
                assert!(tool.description.is_some(), "{}", tool.name);
                let plain_text = tool.name == "bulk";
                assert!(tool.output_schema.is_some() != plain_text, "{}", tool.name);
                let schemas = serde_json::to_string(tool).unwrap();
                assert!(!schemas.contains(r#""format":"uint"#), "{}: {schemas}", tool.name);
            }
        }
    }
}
