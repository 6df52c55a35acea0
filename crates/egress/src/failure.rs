//! Maps errors of the HTTP library to the errors of the egress port.

use std::error::Error;
use weftwork_types::port::EgressError;

/// The error of a request that failed before the response head.
pub(crate) fn sending(host: &str, error: &reqwest::Error) -> EgressError {
    if let Some(refusal) = refusal(error) {
        return refusal;
    }
    let host = host.to_owned();
    let reason = reason(error);
    if error.is_connect() {
        EgressError::Connect { host, reason }
    } else {
        EgressError::Broken { host, reason }
    }
}

/// The error of a body that failed.
pub(crate) fn reading(host: &str, error: &reqwest::Error) -> EgressError {
    EgressError::Broken { host: host.to_owned(), reason: reason(error) }
}

/// The guard's refusal, which the library wraps in its own error.
fn refusal(error: &reqwest::Error) -> Option<EgressError> {
    causes(error).find_map(|cause| cause.downcast_ref::<EgressError>().cloned())
}

/// The innermost cause: the outer errors are generic and may contain the URL.
fn reason(error: &reqwest::Error) -> String {
    match causes(error).last() {
        Some(cause) => cause.to_string(),
        None if error.is_timeout() => "it took too long".to_owned(),
        None => "the request could not be made".to_owned(),
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (**cause).source())
}
