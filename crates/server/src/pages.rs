//! The error pages of `docs/errors`.

/// Codes with their pages, sorted by code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Finds the page of a code.
#[must_use]
pub fn find_page(code: &str) -> Option<&'static str> {
    let found = PAGES.binary_search_by_key(&code, |(code, _)| code).ok()?;
    PAGES.get(found).map(|(_, page)| *page)
}

/// Returns every code with the title of its page.
pub fn page_titles() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES.iter().map(|(code, page)| {
        let first = page.lines().next().unwrap_or_default();
        (*code, first.split_once(": ").map_or(first, |(_, title)| title))
    })
}

#[cfg(test)]
mod tests {
    use super::{find_page, page_titles};

    #[test]
    fn every_page_is_found_by_its_code() {
        for (code, title) in page_titles() {
            assert!(
                find_page(code).is_some_and(|text| text.starts_with(&format!("# {code}: {title}")))
            );
        }
        assert!(find_page("W0201").is_some());
        assert_eq!(find_page("W0999"), None);
    }
}
