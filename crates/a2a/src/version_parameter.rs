//! The service parameter `A2A-Version`.

use http::HeaderMap;

use crate::{
    error::{ErrorKind, Failure},
    version::{VERSION_HEADER, Version},
};

impl Version {
    /// The version of a request by its header, else its query. A missing or empty one means 0.3.
    pub fn of_request(headers: &HeaderMap, query: Option<&str>) -> Result<Self, Failure> {
        let from_query = || {
            let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
            pairs.find(|(name, _)| is_parameter(name)).map(|(_, value)| value)
        };
        // Invalid text has no version.
        let header = headers.get(VERSION_HEADER);
        let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let text = header.filter(|text| !text.trim().is_empty()).or_else(from_query);
        match text.as_deref().map(str::trim) {
            None | Some("") => Ok(Self::V03),
            Some(text) => Self::parse(text).ok_or_else(|| unsupported(text)),
        }
    }
}

/// Whether a query parameter is the version, which is no parameter of an operation.
pub(crate) fn is_parameter(name: &str) -> bool {
    name.eq_ignore_ascii_case(VERSION_HEADER.as_str())
}

fn unsupported(text: &str) -> Failure {
    let shown: String = text.chars().take(32).collect();
    let supported = Version::ALL.map(Version::as_str).join(", ");
    let message = format!("A2A version {shown:?} is not supported; use one of {supported}");
    Failure::new(ErrorKind::VersionNotSupported, message)
        .with_metadata("requestedVersion", shown)
        .with_metadata("supportedVersions", supported)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(header: Option<&'static str>, query: Option<&str>) -> Result<Version, ErrorKind> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(VERSION_HEADER, HeaderValue::from_static(header));
        }
        Version::of_request(&headers, query).map_err(|failure| failure.kind)
    }

    #[test]
    fn missing_or_empty_version_means_0_3() {
        for header in [None, Some(""), Some(" ")] {
            for query in [None, Some(""), Some("A2A-Version="), Some("pageSize=1")] {
                assert_eq!(of(header, query), Ok(Version::V03));
            }
        }
    }

    #[test]
    fn patch_version_is_ignored() {
        assert_eq!(of(Some("1.0.1"), None), Ok(Version::V1));
        assert_eq!(of(Some("0.3.0"), None), Ok(Version::V03));
        assert_eq!(of(None, Some("x=1&a2a-version=1.0")), Ok(Version::V1));
        assert_eq!(of(Some("0.3"), Some("A2A-Version=1.0")), Ok(Version::V03));
    }

    #[test]
    fn unknown_version_is_not_supported() {
        for text in ["1", "1.1", "2.0", "0.2", "1.0.x", "1.0.", "1.0.0.0", "v1.0", "1.0-rc"] {
            assert_eq!(of(Some(text), None), Err(ErrorKind::VersionNotSupported), "{text}");
        }
    }
}
