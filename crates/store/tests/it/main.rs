//! Tests of error messages, and of names, filters and terms of items.

mod errors;
mod items;
