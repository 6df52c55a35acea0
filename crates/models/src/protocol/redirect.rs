//! Redirects of requests to models.
//!
//! A request has the whole conversation, so it is redirected within the origin of its provider only,
//! and stays a `POST`: as a `GET` it would have no prompt.

use weftwork_types::port::{EgressError, EgressResponse};

/// Maximum number of redirects of a request.
const REDIRECTS_MAX: u32 = 5;

macro_rules! moved {
    ($status:literal) => {
        concat!(
            "status ",
            $status,
            " redirects the request there, and a conversation is sent to no other origin; if this is the \
             address of the provider, set it as `url`"
        )
    };
}

/// Returns the address to which a request is sent next, or why it is not; `None` if the response is no
/// redirect. `followed` is the number of redirects so far.
pub(super) fn next_address(
    from: &str,
    response: &EgressResponse,
    followed: u32,
) -> Option<Result<String, EgressError>> {
    let other_origin = match response.status {
        301 => moved!("301"),
        302 => moved!("302"),
        303 => {
            "status 303 redirects there for a `GET`, which has no prompt; set the final address as `url`"
        }
        307 => moved!("307"),
        308 => moved!("308"),
        _ => return None,
    };
    let location = response.header("location")?.trim();
    let refuse = |reason| Some(Err(EgressError::BadUrl { url: without_secrets(location), reason }));
    let Some(target) = resolve(from, location).filter(|_| response.status != 303) else {
        return refuse(other_origin);
    };
    match followed < REDIRECTS_MAX {
        true => Some(Ok(target)),
        false => refuse("it is the sixth redirect in a row"),
    }
}

/// Returns the target of a redirect within the origin of an address; `None` for another origin.
fn resolve(from: &str, location: &str) -> Option<String> {
    let path_at = from.find("://").map_or(0, |at| at + 3);
    let path_at = from[path_at..].find(['/', '?']).map_or(from.len(), |at| path_at + at);
    let (origin, path) = from.split_at(path_at);
    if location.starts_with(['/', '\\']) {
        // Two slashes begin a host.
        let is_host = location[1..].starts_with(['/', '\\']);
        return (!is_host).then(|| format!("{origin}{location}"));
    }
    let scheme = location.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.contains(':') {
        let rest = location.get(origin.len()..)?;
        let is_same = location[..origin.len()].eq_ignore_ascii_case(origin);
        return (is_same && rest.starts_with(['/', '?'])).then(|| location.to_owned());
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{origin}{folder}/{location}"))
}

/// Returns an address without user name, password and query.
fn without_secrets(location: &str) -> String {
    let address = location.split(['?', '#']).next().unwrap_or_default();
    match address.split_once("//") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}//{host}{path}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_within_the_origin() {
        let from = "https://h:8443/v1/chat/completions?key=x";
        for (location, target) in [
            ("/v1/chat/completions/", Some("https://h:8443/v1/chat/completions/")),
            ("https://H:8443/v2", Some("https://H:8443/v2")),
            ("completions/?a=b", Some("https://h:8443/v1/chat/completions/?a=b")),
            ("//h:8443/v1", None),
            ("/\\evil.example/v1", None),
            ("http://h:8443/v1", None),
            ("https://h:8443@evil.example/v1", None),
            ("https://h:84430/v1", None),
            ("https://h/v1", None),
            ("javascript:alert(1)", None),
            ("https:evil.example", None),
            ("", Some("https://h:8443/v1/chat/")),
        ] {
            assert_eq!(resolve(from, location).as_deref(), target, "{location}");
        }
        assert_eq!(without_secrets("https://u:pw@h/v1?key=x"), "https://h/v1");
    }
}
