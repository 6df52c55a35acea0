//! The guarded HTTP client. All HTTP requests of the process go through [`GuardedClient`].
//!
//! The client checks the address that it connects to, not the name. It resolves names itself and
//! checks the addresses before connecting, so a name that first resolves to a public address and
//! later to a private one is refused the second time. Hosts written as addresses are never
//! resolved; they are checked in the URL, on the first request and on every redirect.

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
pub use target::is_loopback;
