//! OpenAI's API for the agents of a server that are exposed by it.
//!
//! A model of this API is an agent. Its answers are runs of the server, and all that a response shows is
//! read from the log of its run: a client that asks for a response again, also after a restart of the
//! server, gets the same one. Tools run on the side of the server.
//!
//! Source: OpenAI's API reference (models, chat completions, responses), and what its Python and
//! JavaScript SDKs, Open WebUI and LibreChat send and read.

mod answer;
mod approval;
mod body;
mod chat;
mod content;
mod error;
mod format;
mod model;
mod page;
mod response;
mod routes;
mod stream;
mod turn;

pub use routes::routes;
