//! Package URLs (ECMA-427): the one given in metadata, that of the only package, or a generic one
//! that names the registry.

use std::{fmt::Write as _, str::FromStr as _};

use packageurl::PackageUrl;
use registry_core::{chain::RegistryId, document::Digest, reference::Key};

use crate::metadata::{Metadata, Package};

/// The package URL of an entity in canonical form.
pub(super) fn package_url(
    metadata: Metadata<'_>,
    registry: &RegistryId,
    key: &Key,
    digest: Digest,
) -> String {
    let given = metadata.text("purl").and_then(read);
    given
        .or_else(|| metadata.package().and_then(from_package))
        .unwrap_or_else(|| generic(registry, key, digest))
}

/// A given package URL in canonical form, if it is valid.
fn read(text: &str) -> Option<String> {
    let read = |text: &str| PackageUrl::from_str(text).ok().map(canonical);
    let canonical = read(&lowered(read(text)?))?;
    // A URL that does not round-trip is ignored.
    (read(&canonical)? == canonical).then_some(canonical)
}

/// Types with case-insensitive names and namespaces that the library does not know.
const CASELESS: [&str; 5] =
    ["pkg:alpm/", "pkg:bitnami/", "pkg:gitlab/", "pkg:luarocks/", "pkg:pub/"];

fn lowered(mut purl: String) -> String {
    if CASELESS.iter().any(|ty| purl.starts_with(ty)) {
        let path = purl.find(['@', '?', '#']).unwrap_or(purl.len());
        purl[..path].make_ascii_lowercase();
    }
    purl
}

/// The canonical form has no empty version and encodes all characters except letters, digits,
/// `.-_~:` and separators. The library leaves some more unencoded.
fn canonical(mut purl: PackageUrl<'_>) -> String {
    if purl.version() == Some("") {
        purl.without_version();
    }
    let (mut text, mut part) = (String::new(), ' ');
    for c in purl.to_string().chars() {
        match c {
            '@' | '?' | '#' => {
                part = c;
                text.push(c);
            }
            '&' if part == '?' => text.push(c),
            '/' if part != '@' => text.push(c),
            '!' | '$' | '&' | '\'' | '(' | ')' | '*' | ',' | '/' => {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{:02X}", u32::from(c));
            }
            _ => text.push(c),
        }
    }
    text
}

/// The default registries of the package types in `server.json`; in other registries, names denote
/// other packages.
const HOMES: [(&str, &str, &str); 5] = [
    ("npm", "npm", "https://registry.npmjs.org"),
    ("pypi", "pypi", "https://pypi.org"),
    ("cargo", "cargo", "https://crates.io"),
    ("nuget", "nuget", "https://api.nuget.org/v3/index.json"),
    ("oci", "oci", "https://docker.io"),
];

fn from_package(package: Package<'_>) -> Option<String> {
    let (_, ty, home) = HOMES.into_iter().find(|(name, ..)| *name == package.registry)?;
    if package.base_url.is_some_and(|base| base.trim_end_matches('/') != home) {
        return None;
    }
    if ty == "oci" {
        return from_image(package.identifier, package.version);
    }
    let (namespace, name) = match package.identifier.rsplit_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, package.identifier),
    };
    let mut purl = PackageUrl::new(ty, name).ok()?;
    if let Some(namespace) = namespace {
        purl.with_namespace(namespace).ok()?;
    }
    if let Some(version) = package.version {
        purl.with_version(version).ok()?;
    }
    read(&purl.to_string())
}

/// Parses `ghcr.io/acme/docs:1.0`, optionally with a digest: the name is the last part, the digest
/// the version. Without a tag, the package's own version is used. An image without a host is on
/// Docker Hub.
fn from_image(image: &str, version: Option<&str>) -> Option<String> {
    let (image, digest) = match image.split_once('@') {
        Some((image, digest)) => (image, Some(digest)),
        None => (image, None),
    };
    let (path, last) = image.rsplit_once('/')?;
    let host = path.split('/').next().unwrap_or(path);
    let home = if host.contains(['.', ':']) || host == "localhost" { "" } else { "docker.io/" };
    let (name, tag) = match last.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (last, version),
    };
    let mut purl = PackageUrl::new("oci", name.to_ascii_lowercase()).ok()?;
    purl.add_qualifier("repository_url", format!("{home}{path}/{name}")).ok()?;
    // A digest in place of the version is not a tag.
    let (digest, tag) = match tag {
        Some(version) if version.contains(':') => (digest.or(Some(version)), None),
        tag => (digest, tag),
    };
    if let Some(tag) = tag {
        purl.add_qualifier("tag", tag).ok()?;
    }
    if let Some(digest) = digest {
        purl.with_version(digest).ok()?;
    }
    read(&purl.to_string())
}

/// The form is `pkg:generic/tool/fetch@1.2.3?checksum=sha256:…&registry.id=…`.
fn generic(registry: &RegistryId, key: &Key, digest: Digest) -> String {
    let (namespace, name) = match key.name.as_str().split_once('/') {
        Some((namespace, name)) => (format!("{}/{namespace}", key.kind), name),
        None => (key.kind.to_string(), key.name.as_str()),
    };
    let build = || {
        let mut purl = PackageUrl::new("generic", name)?;
        purl.with_namespace(namespace)?;
        purl.with_version(key.version.to_string())?;
        purl.add_qualifier("checksum", digest.to_string())?;
        purl.add_qualifier("registry.id", registry.as_str())?;
        Ok::<_, packageurl::Error>(canonical(purl))
    };
    // A key has a name, and all other parts are allowed for generic packages.
    build().expect("a generic package URL can name any entity")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn purl(metadata: &serde_json::Value) -> String {
        let key = "server/io.acme/docs@1.0.0+b".parse().unwrap();
        let registry = RegistryId::new("a b/c");
        package_url(Metadata(metadata.as_object()), &registry, &key, Digest::from_bytes([0xab; 32]))
    }

    /// Examples of the specification and of its published tests.
    #[test]
    fn given_package_url_is_canonicalized() {
        let given = |text: &str| purl(&json!({ "purl": text }));
        for (text, canonical) in [
            ("pkg:bitbucket/birkenfeld/pygments-main@244fd47e07d1014f0aed9c", None),
            ("pkg:deb/debian/curl@7.50.3-1?arch=i386&distro=jessie", None),
            ("pkg:gem/ruby-advisory-db-check@0.12.4", None),
            ("pkg:npm/%40angular/animation@12.3.1", None),
            ("pkg:maven/org.apache.xmlgraphics/batik-anim@1.9.1?packaging=sources", None),
            ("pkg:pypi/Django_rest@1.11.1", Some("pkg:pypi/django-rest@1.11.1")),
            (
                "pkg:GITHUB/Package-URL/purl-Spec@244fd47e",
                Some("pkg:github/package-url/purl-spec@244fd47e"),
            ),
            ("pkg://npm//foobar@12.3.1", Some("pkg:npm/foobar@12.3.1")),
            (
                "pkg:golang/google.golang.org/genproto#/googleapis/api/annotations/",
                Some("pkg:golang/google.golang.org/genproto#googleapis/api/annotations"),
            ),
            (
                "pkg:generic/openssl@1.1.10g?foo=&checksum=sha256:de4d501267da",
                Some("pkg:generic/openssl@1.1.10g?checksum=sha256:de4d501267da"),
            ),
            (
                "pkg:generic/a$b/c'(d)*@1!2,0&3~4?x=(y)&z=!#s,t/u&v",
                Some(
                    "pkg:generic/a%24b/c%27%28d%29%2A@1%212%2C0%263~4?x=%28y%29&z=%21#s%2Ct/u%26v",
                ),
            ),
            ("pkg:github/a/b@feature%2Ffoo", None),
            ("pkg:npm/a@", Some("pkg:npm/a")),
            ("pkg:npm/a@?x=y", Some("pkg:npm/a?x=y")),
            ("pkg:pub/Http@1.0.0-A", Some("pkg:pub/http@1.0.0-A")),
            ("pkg:gitlab/A%2BB/C@V1?x=Y#Z", Some("pkg:gitlab/a%2Bb/c@V1?x=Y#Z")),
        ] {
            assert_eq!(given(text), canonical.unwrap_or(text));
        }
        for bad in [
            "EnterpriseLibrary.Common@6.0.1304",
            "pkg:maven/@1.3.4",
            "pkg:n&g?inx/nginx@0.8.9",
            "pkg:3nginx/nginx@0.8.9",
            "pkg:npm/a@1?in%20production=true",
            "pkg%3Amaven/a/b",
            "pkg:",
        ] {
            assert!(given(bad).starts_with("pkg:generic/server/"), "{bad}");
        }
    }

    #[test]
    fn single_package_identifies_entity() {
        let of = |package: serde_json::Value| purl(&json!({ "packages": [package] }));
        let npm = json!({ "registryType": "npm", "identifier": "@acme/docs", "version": "1.2.3" });
        assert_eq!(of(npm.clone()), "pkg:npm/%40acme/docs@1.2.3");
        let pypi = json!({ "registryType": "pypi", "identifier": "Acme_Docs", "registryBaseUrl": "https://pypi.org/" });
        assert_eq!(of(pypi), "pkg:pypi/acme-docs");
        let epoch = json!({ "registryType": "pypi", "identifier": "a", "version": "1!2.0" });
        assert_eq!(of(epoch), "pkg:pypi/a@1%212.0");
        let oci = json!({ "registryType": "oci", "identifier": "ghcr.io/acme/docs:1.0" });
        assert_eq!(of(oci), "pkg:oci/docs?repository_url=ghcr.io%2Facme%2Fdocs&tag=1.0");
        let image = |identifier: &str, version: &str| {
            of(json!({ "registryType": "oci", "registryBaseUrl": "https://docker.io",
                "identifier": identifier, "version": version }))
        };
        let hub = "pkg:oci/filesystem?repository_url=docker.io%2Fmcp%2Ffilesystem&tag=1.0.2";
        assert_eq!(image("mcp/filesystem", "1.0.2"), hub);
        let elsewhere = "repository_url=ghcr.io%2Fa%2Fb";
        assert_eq!(image("ghcr.io/a/b", "1.2"), format!("pkg:oci/b?{elsewhere}&tag=1.2"));
        assert_eq!(image("ghcr.io/a/b:1", "1.2"), format!("pkg:oci/b?{elsewhere}&tag=1"));
        let digest = format!("pkg:oci/b@sha256:ab?{elsewhere}");
        assert_eq!(image("ghcr.io/a/b", "sha256:ab"), digest);
        assert_eq!(image("ghcr.io/a/b@sha256:ab", "1"), format!("{digest}&tag=1"));
        let elsewhere = json!({ "registryType": "npm", "identifier": "x", "registryBaseUrl": "https://npm.example" });
        for other in [elsewhere, json!({ "registryType": "mcpb", "identifier": "x" }), json!(7)] {
            assert!(of(other.clone()).starts_with("pkg:generic/"), "{other}");
        }
        assert!(purl(&json!({ "packages": [npm.clone(), npm] })).starts_with("pkg:generic/"));
    }

    #[test]
    fn generic_package_url_names_registry() {
        let expected = format!(
            "pkg:generic/server/io.acme/docs@1.0.0%2Bb?checksum=sha256:{}&registry.id=a%20b%2Fc",
            "ab".repeat(32)
        );
        assert_eq!(purl(&json!({})), expected);
    }
}
