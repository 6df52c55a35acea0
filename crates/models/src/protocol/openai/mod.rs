//! OpenAI's chat completions protocol, which most providers and local servers support.

mod request;
mod response;
mod returned;
mod stream;

pub(super) use request::{is_strict, write, write_medium};
pub(super) use stream::OpenaiReader;
