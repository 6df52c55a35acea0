//! Tests of OpenAI's API through the router of a server.

mod bad_input;
mod chat;
mod kills;
mod organizations;
mod reports;
mod responses;
mod world;
