//! The servers of this process: the one list of them. Each file below is one server, with its
//! tools, its state and its seed data.

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
use crate::hosted::Hosted;

/// Every server, with fresh state.
pub fn all(clock: Clock) -> Vec<Hosted> {
    vec![
        Hosted::new(documents::Documents::new(clock)),
        Hosted::new(tasks::Tasks::new(clock)),
        Hosted::new(users::Users),
        Hosted::new(notifications::Notifications::new(clock)),
        Hosted::new(fetch::Fetch),
        Hosted::new(memory::Memory::new()),
        Hosted::new(time::Time::new(clock)),
        Hosted::new(inventory::Inventory::new()),
        Hosted::new(payment::Payment::new()),
        Hosted::new(shipping::Shipping::new(clock)),
        Hosted::new(bench::Bench),
        Hosted::new(bench_many::BenchMany),
    ]
}

/// The server of this name, with fresh state.
pub fn find(name: &str, clock: Clock) -> Option<Hosted> {
    all(clock).into_iter().find(|server| server.name() == name)
}

/// Names of the servers that `--stdio` offers.
pub fn stdio_names() -> Vec<&'static str> {
    let servers = all(Clock::System);
    servers.iter().filter(|server| server.offers_stdio()).map(Hosted::name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_paths_and_tools_are_distinct() {
        let servers = all(Clock::System);
        let names: HashSet<_> = servers.iter().map(Hosted::name).collect();
        let paths: HashSet<_> = servers.iter().map(Hosted::path).collect();
        assert_eq!((names.len(), paths.len()), (12, 12));
        let tools: Vec<_> = servers.iter().flat_map(Hosted::tools).map(|t| &t.name).collect();
        assert_eq!(tools.iter().collect::<HashSet<_>>().len(), tools.len());
    }

    #[test]
    fn every_tool_describes_itself_completely() {
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
