//! Name resolution with a check of the addresses.

use crate::target::{Trust, check_address};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use weftwork_types::BoxFuture;

/// A name resolver. Its addresses are checked before connecting.
pub trait Lookup: Send + Sync + std::fmt::Debug {
    /// Returns the addresses of a host.
    ///
    /// # Errors
    /// The system's error if the name cannot be resolved.
    fn lookup(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver that returns only permitted addresses.
pub(crate) struct GuardedResolver {
    lookup: Arc<dyn Lookup>,
    trust: Trust,
}

impl GuardedResolver {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, trust: Trust) -> Self {
        Self { lookup, trust }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str());
        let trust = self.trust;
        Box::pin(async move {
            let found = found.await?;
            if found.is_empty() {
                return Err(io::Error::other("the name has no address").into());
            }
            // A single refused address refuses the name: a legitimate name does not mix them, and
            // the connection may try the addresses in any order.
            for address in &found {
                check_address(name.as_str(), *address, trust)?;
            }
            // Port 0 is replaced by the port of the URL.
            let addresses: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}
