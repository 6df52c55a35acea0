//! Logins at servers with OAuth 2.1, as the authorization part of the protocol describes them.
//!
//! A person logs in once ([`McpServers::log_in`](crate::McpServers::log_in)), in a browser or by a code
//! on another device. The tokens are stored in a file of their own for each address of a server. A
//! token is sent to that address alone, and a refresh token to the token endpoint that it came from.
//! Requests renew a token before it ends, or once it is refused; they never start a login.

mod browser;
mod callback;
mod challenge;
mod client;
mod device;
mod discovery;
mod error;
mod login;
mod requests;
mod saved;
mod token;

pub(crate) use challenge::Challenge;
pub(crate) use error::OauthError;
pub(crate) use login::{Login, LoginPlace};

use weftwork_types::{BoxFuture, Timestamp};

/// The way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoginKind {
    /// In a browser on this machine, or with the address that it was redirected to.
    #[default]
    Browser,
    /// By a code that is typed on any device.
    Device,
}

/// A login to make.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoginRequest {
    /// The way to log in.
    pub kind: LoginKind,
    /// Scopes to ask for, separated by spaces, instead of those that the server names.
    pub scopes: Option<String>,
}

/// The next action of the person who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStep {
    /// Open an address in a browser.
    Open {
        /// The address. It is valid for this login alone.
        url: String,
    },
    /// Open an address on any device, and type a code there.
    Code {
        /// The address.
        url: String,
        /// The code.
        code: String,
        /// The address with the code, if there is one.
        complete: Option<String>,
    },
}

/// The person who logs in.
pub trait LoginScreen: Send + Sync {
    /// Shows the next action.
    fn show(&self, step: &LoginStep);

    /// Waits for the address that the browser was redirected to, if the person copies it by hand. A
    /// future without an end is one without such a person.
    fn pasted(&self) -> BoxFuture<'_, String>;
}

/// The login at a server, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginState {
    /// The authorization server.
    pub issuer: String,
    /// Scopes of the token, if they are known.
    pub scopes: Option<String>,
    /// `true` if the authorization server has ended the login.
    pub is_ended: bool,
    /// The end of the token, if it is known.
    pub ends_at: Option<Timestamp>,
    /// `true` if the token can be renewed without a person.
    pub is_renewable: bool,
}
