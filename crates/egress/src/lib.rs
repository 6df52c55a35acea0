//! The one guarded HTTP client: every byte that leaves the process over HTTP leaves through
//! [`GuardedClient`].
//!
//! It looks at the address that is really connected to, not at the name: names are resolved here
//! and the answer is checked before the connection is made, so a name that resolves to a public
//! address first and to a private one later is refused the second time. Hosts written as
//! addresses never reach a resolver and are checked in the URL, on the first request and on every
//! redirect.

mod address;
mod allow;
mod client;
mod error;
mod failure;
mod redirect;
mod resolver;
mod target;
mod tls;

pub use address::{AddressClass, classify};
pub use allow::AllowedHost;
pub use client::{EgressConfig, GuardedClient};
pub use error::ConfigError;
pub use resolver::{Lookup, SystemLookup};
