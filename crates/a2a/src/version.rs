//! The version of the protocol that a request names.

use crate::error::{A2aError, Result};
use crate::wire::VERSION;
use axum::http::HeaderMap;

/// Header, and parameter of a query, with the version.
const NAME: &str = "a2a-version";

/// Checks the version of a request: a missing one is 0.3, as the specification has it. A patch number has
/// no effect.
///
/// # Errors
/// An error that names the version of this server.
pub(crate) fn check_version(headers: &HeaderMap, query: Option<&str>) -> Result<()> {
    let of_header = headers.get(NAME).map(|value| value.to_str().unwrap_or("?").to_owned());
    let of_query = || {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut found = pairs.filter(|(name, _)| name.eq_ignore_ascii_case(NAME));
        found.next().map(|(_, value)| value.into_owned())
    };
    let version = of_header.or_else(of_query).unwrap_or_default();
    let mut numbers = version.trim().split('.');
    let minor = format!("{}.{}", numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"));
    match version.trim() {
        "" => Err(A2aError::version("0.3, which a request without the header has,")),
        _ if minor == VERSION => Ok(()),
        other => Err(A2aError::version(other)),
    }
}

/// Methods of version 0.3, with those of this version.
const METHODS_OF_0_3: &[(&str, &str)] = &[
    ("message/send", "SendMessage"),
    ("message/stream", "SendStreamingMessage"),
    ("tasks/get", "GetTask"),
    ("tasks/list", "ListTasks"),
    ("tasks/cancel", "CancelTask"),
    ("tasks/resubscribe", "SubscribeToTask"),
    ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"),
    ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig"),
    ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs"),
    ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig"),
    ("agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"),
];

/// Returns the error for a method of version 0.3; `None` for another method.
pub(crate) fn of_older_method(method: &str) -> Option<A2aError> {
    let (old, new) = METHODS_OF_0_3.iter().find(|(old, _)| *old == method)?;
    Some(A2aError::version(&format!("0.3, whose method `{old}` is `{new}` now,")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_version_of_a_request_is_that_of_its_header_or_of_its_query() {
        for (header, query, is_supported) in [
            (Some("1.0"), None, true),
            (Some("1.0.1"), None, true),
            (Some(" 1.0 "), None, true),
            (Some("1"), None, true),
            (None, Some("a=b&A2A-Version=1.0"), true),
            (None, Some("a2a-version=1.0"), true),
            (None, None, false),
            (Some(""), None, false),
            (Some("0.3"), None, false),
            (Some("0.3"), Some("A2A-Version=1.0"), false),
            (Some("1.1"), None, false),
            (Some("11.0"), None, false),
            (Some("99.0"), None, false),
            (Some("one"), None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(header.map(|value| {
                let name = axum::http::HeaderName::from_static(NAME);
                (name, HeaderValue::from_str(value).expect("is a value"))
            }));
            let checked = check_version(&headers, query);
            assert_eq!(checked.is_ok(), is_supported, "{header:?} {query:?}: {checked:?}");
            if let Err(error) = checked {
                assert_eq!(error.kind(), crate::error::Kind::VersionNotSupported);
            }
        }
    }
}
