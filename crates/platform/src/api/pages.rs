//! Lists that an API returns in pages.

use super::answer::{Answer, BODY_BYTES_MAX};
use super::tool::{ApiRequest, ApiTool};
use crate::call::is_cut;
use crate::definition::{Pagination, PaginationKind, at_path};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use url::Url;
use weftwork_tools::{ToolContext, ToolError};
use weftwork_types::ErrorCode;

/// Usual maximum number of pages.
const PAGES_MAX: u32 = 20;
/// Usual maximum number of items.
const ITEMS_MAX: u32 = 1_000;

/// Maximum number of pages.
pub(super) fn pages_max(of: &Pagination) -> u32 {
    of.pages_max.unwrap_or(PAGES_MAX)
}

/// Reads a list page by page. The items of each page are emitted when it was read; the result has the
/// items of all.
pub(super) async fn read_pages(
    tool: &ApiTool,
    mut request: ApiRequest,
    of: &Pagination,
    context: &ToolContext,
) -> Result<Value, ToolError> {
    let mut pages = Pages::new(of);
    if of.kind == PaginationKind::Page {
        set_member(&mut request.url, of, &pages.number.to_string());
    }
    pages.seen.insert(request.url.to_string());
    loop {
        let answer = tool.fetch(&request, context).await;
        let answer = answer.map_err(|error| error.within(&pages.part(pages.read + 1)))?;
        let known = pages.items.len();
        let added = pages.add(&answer);
        added.map_err(|reason| pages.wrong(pages.read + 1, &reason))?;
        let items = pages.items.get(known..).unwrap_or_default();
        context.progress(json!({"page": pages.read, "items": items}));
        if pages.limit.is_some() {
            break;
        }
        let next = pages.next(&answer, &request.url);
        let next = next.map_err(|reason| pages.wrong(pages.read, &reason))?;
        let Some(next) = next else { break };
        if pages.is_full() {
            break;
        }
        request.url = next;
    }
    Ok(pages.into_value())
}

/// The pages that were read.
struct Pages<'p> {
    of: &'p Pagination,
    status: u16,
    items: Vec<Value>,
    /// Items of the last page, as text.
    last: String,
    bytes: usize,
    read: u32,
    /// Number of the page, for the kind `page`.
    number: u32,
    /// Addresses that were requested.
    seen: BTreeSet<String>,
    /// Limit at which reading ended before the last page.
    limit: Option<&'static str>,
}

impl<'p> Pages<'p> {
    fn new(of: &'p Pagination) -> Self {
        Self {
            of,
            status: 200,
            items: Vec::new(),
            last: String::new(),
            bytes: 0,
            read: 0,
            number: of.start.unwrap_or(1),
            seen: BTreeSet::new(),
            limit: None,
        }
    }

    fn items_max(&self) -> usize {
        usize::try_from(self.of.items_max.unwrap_or(ITEMS_MAX)).unwrap_or(usize::MAX)
    }

    /// Adds the items of a page, up to the limits.
    fn add(&mut self, answer: &Answer) -> Result<(), String> {
        if is_cut(&answer.body) {
            return Err(format!("it is longer than {BODY_BYTES_MAX} bytes; ask for fewer items"));
        }
        let found = match self.of.items.as_deref() {
            Some(path) => at_path(&answer.body, path),
            None => &answer.body,
        };
        let Value::Array(found) = found else {
            let place = self.of.items.as_deref().map(|path| format!(" at `{path}`"));
            return Err(format!("its body has no list{}", place.unwrap_or_default()));
        };
        let text = Value::from(found.clone()).to_string();
        if self.of.kind == PaginationKind::Page && !found.is_empty() && text == self.last {
            let param = self.of.param.as_deref().unwrap_or_default();
            return Err(format!(
                "it has the same items as the page before; the API may not read `{param}` of the query"
            ));
        }
        self.last = text;
        self.status = answer.status;
        self.read += 1;
        for item in found {
            let bytes = item.to_string().len() + 1;
            if self.items.len() == self.items_max() {
                self.limit = Some("items");
            } else if self.bytes + bytes > BODY_BYTES_MAX {
                self.limit = Some("bytes");
            }
            if self.limit.is_some() {
                break;
            }
            self.bytes += bytes;
            self.items.push(item.clone());
        }
        Ok(())
    }

    /// Returns the address of the next page; `None` behind the last one.
    fn next(&mut self, answer: &Answer, current: &Url) -> Result<Option<Url>, String> {
        let found =
            self.of.next.as_deref().map_or(&Value::Null, |path| at_path(&answer.body, path));
        let next = match self.of.kind {
            // A page of a list that is filtered may be empty, and have a cursor.
            PaginationKind::Cursor => cursor_of(found)?.map(|cursor| self.with(current, &cursor)),
            PaginationKind::Page if self.last == "[]" => None,
            PaginationKind::Page => {
                self.number = self.number.saturating_add(1);
                Some(self.with(current, &self.number.to_string()))
            }
            PaginationKind::Link => {
                let link = match self.of.next {
                    Some(_) => cursor_of(found)?,
                    None => answer.next_link.clone(),
                };
                link.map(|link| resolve(current, &link)).transpose()?
            }
        };
        if let Some(next) = &next
            && !self.seen.insert(next.to_string())
        {
            return Err("its next page is one that was read before".to_owned());
        }
        Ok(next)
    }

    fn with(&self, current: &Url, value: &str) -> Url {
        let mut next = current.clone();
        set_member(&mut next, self.of, value);
        next
    }

    /// Returns `true` if no further page is read, although there is one.
    fn is_full(&mut self) -> bool {
        if self.read >= pages_max(self.of) {
            self.limit = Some("pages");
        } else if self.items.len() >= self.items_max() {
            self.limit = Some("items");
        }
        self.limit.is_some()
    }

    /// Names a page, and what was read.
    fn part(&self, page: u32) -> String {
        let Self { read, items, .. } = self;
        format!("page {page} of the list ({read} pages with {} items were read)", items.len())
    }

    fn wrong(&self, page: u32, reason: &str) -> ToolError {
        ToolError::failed(reason).within(&self.part(page)).with_code(ErrorCode("W1063"))
    }

    fn into_value(self) -> Value {
        let mut pages = json!({"read": self.read});
        if let Some(limit) = self.limit {
            pages["limit"] = limit.into();
        }
        json!({"status": self.status, "body": self.items, "pages": pages})
    }
}

/// Reads a cursor. Services end a list with null, an empty text or `false`.
fn cursor_of(found: &Value) -> Result<Option<String>, String> {
    match found {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err("its `next` is no text and no number".to_owned()),
    }
}

/// Sets the member of the query that names a page.
fn set_member(url: &mut Url, of: &Pagination, value: &str) {
    let Some(param) = of.param.as_deref() else { return };
    let others = url.query_pairs().into_owned().filter(|(name, _)| name != param);
    let others: Vec<_> = others.collect();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(param, value);
}

/// Returns the address of a link, which has the origin of the page: its credentials go nowhere else.
fn resolve(current: &Url, link: &str) -> Result<Url, String> {
    let next = current.join(link).map_err(|error| format!("its next address is none: {error}"))?;
    match next.origin() == current.origin() {
        true => Ok(next),
        false => Err(format!(
            "its next address has the origin {}, and not {}",
            next.origin().ascii_serialization(),
            current.origin().ascii_serialization()
        )),
    }
}

/// Returns the address with `rel="next"` of a header `Link`.
pub(super) fn next_link(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((_, after)) = rest.split_once('<') {
        let (address, params) = after.split_once('>')?;
        let end = end_of_link(params);
        let params = params.get(..end)?;
        if params.split(';').any(is_next) {
            return Some(address);
        }
        rest = after.get(address.len() + 1 + end..)?;
    }
    None
}

/// Returns the end of the parameters of a link: a comma that is not in quotation marks.
fn end_of_link(params: &str) -> usize {
    let mut is_quoted = false;
    let end = params.char_indices().find(|(_, char)| {
        is_quoted ^= *char == '"';
        *char == ',' && !is_quoted
    });
    end.map_or(params.len(), |(end, _)| end)
}

fn is_next(param: &str) -> bool {
    let Some((name, value)) = param.split_once('=') else { return false };
    let mut kinds = value.trim().trim_matches('"').split_ascii_whitespace();
    name.trim().eq_ignore_ascii_case("rel") && kinds.any(|kind| kind.eq_ignore_ascii_case("next"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_link_is_found_among_others() {
        for (header, next) in [
            (
                "<https://a/x?page=2>; rel=\"next\", <https://a/x?page=9>; rel=\"last\"",
                Some("https://a/x?page=2"),
            ),
            (
                "<https://a/1>; rel=\"prev\", </x?a=1,2>; title=\"a, <b>\"; rel=next",
                Some("/x?a=1,2"),
            ),
            ("<https://a/1>; REL=\"last Next\"", Some("https://a/1")),
            ("<https://a/1>; rel=\"nextish\"", None),
            ("<https://a/1>; title=\"rel=next\"", None),
            ("<https://a/1", None),
            ("", None),
        ] {
            assert_eq!(next_link(header), next, "{header}");
        }
    }
}
