//! Finds the selectors that may match a resource, without a comparison with each.

use foldhash::{HashMap, HashMapExt as _};
use registry_core::entity::policy::{AppliesTo, Pattern};

use crate::Resource;

/// Selectors by the exact names of the tools, skills and servers that they select.
#[derive(Debug, Default)]
pub(crate) struct SelectorIndex {
    exact: HashMap<String, Vec<usize>>,
    /// The selectors with patterns, or without resources.
    others: Vec<usize>,
}

impl SelectorIndex {
    /// Indexes selectors by their positions.
    pub(crate) fn new<'a>(selectors: impl Iterator<Item = &'a AppliesTo>) -> Self {
        let mut index = Self { exact: HashMap::new(), others: Vec::new() };
        for (number, selector) in selectors.enumerate() {
            match exact_names(selector) {
                Some(names) => {
                    for name in names {
                        index.exact.entry(name.to_owned()).or_default().push(number);
                    }
                }
                None => index.others.push(number),
            }
        }
        index
    }

    /// The positions of the selectors that may match a resource, ascending.
    pub(crate) fn candidates(&self, resource: &Resource) -> Vec<usize> {
        let named = resource.names().filter_map(|name| self.exact.get(name)).flatten();
        let mut numbers: Vec<usize> = named.chain(&self.others).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// The names of all selected resources; `None` if a pattern can match others.
pub(crate) fn exact_names(selector: &AppliesTo) -> Option<Vec<&str>> {
    let names = || selector.tools.iter().chain(&selector.skills).chain(&selector.servers);
    let exact: Option<Vec<_>> = names().map(Pattern::as_exact).collect();
    exact.filter(|_| selector.names_resources())
}
