//! The parts of an entity's open `metadata` that bills use: license, supplier, URLs and packages.
//!
//! The keys are those of `package.json` and of MCP's `server.json`. Values with another type, empty
//! or too long values, and those with control characters count as absent.

use serde_json::{Map, Value};

use crate::{license::License, url::is_web_address};

/// Maximum size of a text from metadata in bytes.
pub(super) const TEXT_BYTES: usize = 1024;

/// The metadata of an entity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metadata<'a>(pub(super) Option<&'a Map<String, Value>>);

/// The supplier of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Supplier {
    pub(super) name: String,
    pub(super) url: Option<String>,
}

impl Supplier {
    /// A supplier, if the texts are valid.
    pub(super) fn new(name: &str, url: Option<&str>) -> Option<Self> {
        let url = url.and_then(usable).filter(|url| is_web_address(url)).map(str::to_owned);
        Some(Self { name: usable(name)?.to_owned(), url })
    }
}

/// A package of a package registry, as in `server.json`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Package<'a> {
    pub(super) registry: &'a str,
    pub(super) base_url: Option<&'a str>,
    pub(super) identifier: &'a str,
    pub(super) version: Option<&'a str>,
}

impl<'a> Metadata<'a> {
    /// The member itself, or that of an imported `server.json`.
    fn get(self, name: &str) -> Option<&'a Value> {
        let members = self.0?;
        members.get(name).or_else(|| members.get("serverJson")?.get(name))
    }

    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        text(self.get(name)?)
    }

    fn address(self, name: &str) -> Option<String> {
        address(self.get(name)?)
    }

    pub(super) fn license(self) -> Option<License> {
        License::read(self.text("license")?)
    }

    /// `supplier`: a name, or an object with `name` and optionally `url`.
    pub(super) fn supplier(self) -> Option<Supplier> {
        match self.get("supplier")? {
            Value::Object(supplier) => {
                let url = supplier.get("url").and_then(Value::as_str);
                Supplier::new(supplier.get("name")?.as_str()?, url)
            }
            value => Supplier::new(value.as_str()?, None),
        }
    }

    /// `repository`: a URL, or an object with `url`.
    pub(super) fn repository(self) -> Option<String> {
        match self.get("repository")? {
            Value::Object(repository) => address(repository.get("url")?),
            value => address(value),
        }
    }

    pub(super) fn website(self) -> Option<String> {
        self.address("websiteUrl").or_else(|| self.address("homepage"))
    }

    /// `remotes`: a list of objects with `url`.
    pub(super) fn endpoints(self) -> Vec<String> {
        let remotes = self.get("remotes").and_then(Value::as_array);
        remotes.into_iter().flatten().filter_map(|remote| address(remote.get("url")?)).collect()
    }

    /// The only entry of `packages`. With several, none of them identifies the entity.
    pub(super) fn package(self) -> Option<Package<'a>> {
        let [package] = self.get("packages")?.as_array()?.as_slice() else { return None };
        let get = |name| package.get(name).and_then(text);
        let (registry, identifier) = (get("registryType")?, get("identifier")?);
        Some(Package {
            registry,
            base_url: get("registryBaseUrl"),
            identifier,
            version: get("version"),
        })
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().and_then(usable)
}

/// The trimmed text, unless it is empty, too long, or has control characters.
fn usable(text: &str) -> Option<&str> {
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= TEXT_BYTES;
    (fits && !text.chars().any(char::is_control)).then_some(text)
}

fn address(value: &Value) -> Option<String> {
    text(value).filter(|text| is_web_address(text)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_values_count_as_absent() {
        let long = "x".repeat(TEXT_BYTES + 1);
        for odd in
            [json!(7), json!(null), json!([]), json!({}), json!(" "), json!("a\nb"), json!(long)]
        {
            let mut values = Map::new();
            for name in
                ["license", "supplier", "repository", "websiteUrl", "remotes", "packages", "purl"]
            {
                values.insert(name.to_owned(), odd.clone());
            }
            let metadata = Metadata(Some(&values));
            assert_eq!(metadata.license(), None, "{odd}");
            assert_eq!(metadata.supplier(), None, "{odd}");
            assert_eq!(metadata.repository(), None, "{odd}");
            assert_eq!(metadata.website(), None, "{odd}");
            assert_eq!(metadata.text("purl"), None, "{odd}");
            assert!(metadata.endpoints().is_empty() && metadata.package().is_none(), "{odd}");
        }
        assert!(Metadata(None).license().is_none());
    }

    #[test]
    fn both_notations_are_supported() {
        let read = |value: Value| {
            let metadata = Metadata(value.as_object());
            (metadata.supplier(), metadata.repository(), metadata.endpoints())
        };
        let url = || Some("https://a.example".to_owned());
        let plain = json!({ "supplier": " Acme ", "repository": "https://a.example" });
        let supplier = Supplier { name: "Acme".to_owned(), url: None };
        assert_eq!(read(plain), (Some(supplier.clone()), url(), vec![]));
        let rich = json!({
            "supplier": { "name": "Acme", "url": "https://a.example" },
            "repository": { "url": "https://a.example", "source": "git" },
            "remotes": [{ "url": "https://a.example" }, { "url": "https://{host}" }, 7],
        });
        let supplier = Supplier { url: url(), ..supplier };
        assert_eq!(read(rich.clone()), (Some(supplier.clone()), url(), vec![url().unwrap()]));
        let imported = json!({ "serverJson": rich, "repository": "https://own.example" });
        let own = Some("https://own.example".to_owned());
        assert_eq!(read(imported), (Some(supplier), own, vec![url().unwrap()]));
    }
}
