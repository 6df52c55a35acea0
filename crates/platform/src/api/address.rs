//! Addresses that an endpoint with placeholders becomes.

use crate::definition::ApiTransport;
use url::Url;

/// Reads an address, which the definition allows. The error is the reason why it does not.
pub(crate) fn allowed_address(api: &ApiTransport, text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("the address is none: {error}"))?;
    check_allowed(api, &url)?;
    Ok(url)
}

/// Checks that an address is one that the definition allows. Without placeholders, it is.
pub(super) fn check_allowed(api: &ApiTransport, url: &Url) -> Result<(), String> {
    if !api.has_template() {
        return Ok(());
    }
    let mut allowed = api.url_allow_list.iter().filter_map(|entry| Url::parse(entry).ok());
    let has_login = !url.username().is_empty() || url.password().is_some();
    match !has_login && !climbs(url.path()) && allowed.any(|entry| is_below(url, &entry)) {
        true => Ok(()),
        false => Err(format!(
            "the address {}{} is not below one of `url_allow_list`",
            url.origin().ascii_serialization(),
            url.path()
        )),
    }
}

fn is_below(url: &Url, entry: &Url) -> bool {
    let base = entry.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(base);
    url.origin() == entry.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns `true` for a path that leads upwards at a server which decodes it first.
pub(super) fn climbs(path: &str) -> bool {
    let decoded = path.to_lowercase().replace("%2f", "/").replace("%5c", "/").replace("%2e", ".");
    decoded.split('/').any(|part| part == "..")
}
