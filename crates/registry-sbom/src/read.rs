//! Parsing of bills in any format, as far as comparison needs it.
//!
//! Bills of other tools are supported: a component without a key of this registry is identified by
//! group and name.

use std::collections::BTreeMap;

use registry_core::reference::Key;
use serde_json::{Map, Value};

use crate::{cyclonedx, id};

/// The components of a bill by name and version.
pub type Inventory = BTreeMap<(String, String), Entry>;

/// The properties of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The SHA-256 in hex digits.
    pub digest: Option<String>,
    /// The license.
    pub license: Option<String>,
    /// The supplier.
    pub supplier: Option<String>,
    /// The lifecycle state in the registry.
    pub lifecycle: Option<String>,
}

/// The text is not a bill of materials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBill {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// It is JSON, but not a known format.
    #[error(
        "unknown format: neither CycloneDX (`bomFormat`) nor SPDX 2 (`spdxVersion`) nor SPDX 3 (`@graph`)"
    )]
    Format,
}

/// Parses a bill.
pub fn read(bytes: &[u8]) -> Result<Inventory, InvalidBill> {
    let bill: Value =
        serde_json::from_slice(bytes).map_err(|e| InvalidBill::Json(e.to_string()))?;
    if bill["bomFormat"] == "CycloneDX" {
        Ok(cyclonedx(&bill))
    } else if bill["spdxVersion"].as_str().is_some_and(|version| version.starts_with("SPDX-2.")) {
        Ok(spdx2(&bill))
    } else if bill["@graph"].is_array() {
        Ok(spdx3(&bill))
    } else {
        Err(InvalidBill::Format)
    }
}

fn items<'a>(value: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    value[list].as_array().into_iter().flatten()
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The name and version of a component: from its key if it has one.
fn identity(key: Option<Key>, thing: &Value, version: &str) -> (String, String) {
    if let Some(Key { kind, name, version }) = key {
        return (format!("{kind}/{name}"), version.to_string());
    }
    let group = thing["group"].as_str().map(|group| format!("{group}/")).unwrap_or_default();
    let name = thing["name"].as_str().unwrap_or_default();
    (format!("{group}{name}"), thing[version].as_str().unwrap_or_default().to_owned())
}

fn cyclonedx(bill: &Value) -> Inventory {
    let mut found = Inventory::new();
    let root = &bill["metadata"]["component"];
    if root.is_object() && root["bom-ref"] != cyclonedx::SUBJECT {
        add_component(&mut found, root);
    }
    for thing in items(bill, "components").chain(items(bill, "services")) {
        add_component(&mut found, thing);
    }
    found
}

fn add_component(found: &mut Inventory, thing: &Value) {
    let property = |name: &str| {
        items(thing, "properties").find(|p| p["name"] == name).and_then(|p| owned(&p["value"]))
    };
    let hash = items(thing, "hashes").find(|hash| hash["alg"] == "SHA-256");
    let digest = hash.and_then(|hash| owned(&hash["content"])).or_else(|| {
        property(cyclonedx::DIGEST).map(|text| text.trim_start_matches("sha256:").to_owned())
    });
    let licenses: Vec<_> = items(thing, "licenses")
        .filter_map(|choice| {
            let license = &choice["license"];
            owned(&choice["expression"]).or(owned(&license["id"])).or(owned(&license["name"]))
        })
        .collect();
    let entry = Entry {
        digest,
        license: (!licenses.is_empty()).then(|| licenses.join(", ")),
        supplier: owned(&thing["supplier"]["name"]).or(owned(&thing["provider"]["name"])),
        lifecycle: property("registry:lifecycle"),
    };
    let key = thing["bom-ref"].as_str().and_then(|text| text.parse().ok());
    found.insert(identity(key, thing, "version"), entry);
    for inner in items(thing, "components").chain(items(thing, "services")) {
        add_component(found, inner);
    }
}

fn spdx2(bill: &Value) -> Inventory {
    let texts: Map<String, Value> = items(bill, "hasExtractedLicensingInfos")
        .filter_map(|info| Some((owned(&info["licenseId"])?, info["name"].clone())))
        .collect();
    let known = |value: &Value| owned(value).filter(|text| text != "NOASSERTION");
    let packages =
        items(bill, "packages").filter(|package| package["SPDXID"] != "SPDXRef-Registry");
    let read = |package: &Value| {
        let hash = items(package, "checksums").find(|sum| sum["algorithm"] == "SHA256");
        let name = |license: String| texts.get(&license).and_then(owned).unwrap_or(license);
        let supplier = known(&package["supplier"]);
        let prefix = "registry:lifecycle=";
        let comment = package["comment"].as_str().unwrap_or_default();
        let entry = Entry {
            digest: hash.and_then(|sum| owned(&sum["checksumValue"])),
            license: known(&package["licenseDeclared"]).map(name),
            supplier: supplier.as_deref().map(organization),
            lifecycle: comment
                .lines()
                .find_map(|line| line.strip_prefix(prefix))
                .map(str::to_owned),
        };
        let key = package["SPDXID"].as_str().and_then(id::read_spdx_ref);
        (identity(key, package, "versionInfo"), entry)
    };
    packages.map(read).collect()
}

/// The name of an SPDX 2 organization.
fn organization(text: &str) -> String {
    let name = text.strip_prefix("Organization: ").unwrap_or(text);
    name.strip_suffix(" ()").unwrap_or(name).to_owned()
}

fn spdx3(bill: &Value) -> Inventory {
    let elements = || items(bill, "@graph");
    let by_id: BTreeMap<&str, &Value> =
        elements().filter_map(|element| Some((element["spdxId"].as_str()?, element))).collect();
    let at = |value: &Value| value.as_str().and_then(|id| by_id.get(id).copied());
    let declared: BTreeMap<&str, &Value> = elements()
        .filter(|element| element["relationshipType"] == "hasDeclaredLicense")
        .filter_map(|element| Some((element["from"].as_str()?, at(&element["to"][0])?)))
        .collect();
    let packages = elements().filter(|element| element["type"] == "software_Package");
    let read = |package: &Value| {
        let id = package["spdxId"].as_str()?;
        let fragment = id.split_once('#').map_or(id, |(_, fragment)| fragment);
        if fragment == "registry" {
            return None;
        }
        let license = declared.get(id).and_then(|license| {
            owned(&license["simplelicensing_licenseExpression"])
                .or(owned(&license["simplelicensing_licenseText"]))
        });
        let properties = &package["extension"][0];
        let lifecycle = items(properties, "extension_cdxProperty")
            .find(|property| property["extension_cdxPropName"] == "registry:lifecycle")
            .and_then(|property| owned(&property["extension_cdxPropValue"]));
        let hash = items(package, "verifiedUsing").find(|hash| hash["algorithm"] == "sha256");
        let entry = Entry {
            digest: hash.and_then(|hash| owned(&hash["hashValue"])),
            license,
            supplier: at(&package["suppliedBy"]).and_then(|supplier| owned(&supplier["name"])),
            lifecycle,
        };
        Some((identity(fragment.parse().ok(), package, "software_packageVersion"), entry))
    };
    packages.filter_map(read).collect()
}
