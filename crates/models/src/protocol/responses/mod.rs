//! OpenAI's responses protocol, without storage of conversations at the provider.
//!
//! Source: <https://platform.openai.com/docs/api-reference/responses>

mod request;
mod stream;

pub(super) use request::{write, write_medium};
pub(super) use stream::ResponsesReader;
