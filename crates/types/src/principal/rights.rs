//! Rights: the kinds of operations that a server performs for a principal.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of operation. No right includes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Read and follow everything of the organisation, in its shown form.
    Read,
    /// Create, change and delete threads, runs and items.
    Run,
    /// Answer questions and decide about calls that need an approval.
    Approve,
    /// Change assistants, prune threads and read the whole values of artifacts.
    Admin,
}

/// A set of rights. Its text has the names in order, with commas: `read,run`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<Right>", into = "Vec<Right>")]
pub struct Rights(u8);

/// An error for text that is no list of rights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no right; expected some of read, run, approve and admin, with commas")]
pub struct InvalidRights {
    /// Rejected name, truncated to 40 characters.
    pub found: String,
}

impl Right {
    /// All rights, in the order of their names in texts.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Approve, Self::Admin];

    /// Returns the name in files, requests and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Rights {
    /// No right.
    pub const NONE: Self = Self(0);
    /// All rights.
    pub const ALL: Self = Self::of(&Right::ALL);

    /// Creates a set.
    #[must_use]
    pub const fn of(rights: &[Right]) -> Self {
        let mut rest = rights;
        let mut bits = 0;
        while let [first, others @ ..] = rest {
            bits |= first.bit();
            rest = others;
        }
        Self(bits)
    }

    /// Returns `true` if the set has a right.
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Returns `true` if the set has every right.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// Returns the rights in order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }
}

/// All rights: records without rights are those of principals that have all.
impl Default for Rights {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Right::name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

impl FromStr for Rights {
    type Err = InvalidRights;

    /// Reads names with commas between them, at least one.
    fn from_str(text: &str) -> Result<Self, InvalidRights> {
        let read = |name: &str| {
            let right = Right::ALL.into_iter().find(|right| right.name() == name.trim());
            right.ok_or_else(|| InvalidRights { found: name.chars().take(40).collect() })
        };
        text.split(',').map(read).collect::<Result<Vec<_>, _>>().map(Self::from)
    }
}

impl From<Vec<Right>> for Rights {
    fn from(rights: Vec<Right>) -> Self {
        Self::of(&rights)
    }
}

impl From<Rights> for Vec<Right> {
    fn from(rights: Rights) -> Self {
        rights.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Principal;
    use serde_json::json;

    #[test]
    fn a_set_has_the_rights_of_its_text_and_no_others() {
        for (text, shown) in [
            ("read", "read"),
            ("run,read", "read,run"),
            ("admin, approve", "approve,admin"),
            ("read,run,approve,admin", "read,run,approve,admin"),
        ] {
            let rights: Rights = text.parse().expect("rights");
            assert_eq!(rights.to_string(), shown);
            for right in Right::ALL {
                assert_eq!(rights.has(right), text.contains(right.name()), "{text}: {right}");
            }
        }
        for text in ["", "read,", "Read", "write", "read run", "none"] {
            assert!(text.parse::<Rights>().is_err(), "{text}");
        }
        assert_eq!(Rights::NONE.to_string(), "none");
        assert!(Right::ALL.into_iter().all(|right| Rights::ALL.has(right)));
    }

    #[test]
    fn records_of_principals_without_rights_have_all_and_others_list_them() {
        let record = json!({"org": "local", "subject": "local"});
        assert_eq!(json!(Principal::local()), record);
        assert_eq!(serde_json::from_value::<Principal>(record).expect("read"), Principal::local());
        let reader = Principal::local().with_rights(Rights::of(&[Right::Read]));
        let record = json!({"org": "local", "subject": "local", "rights": ["read"]});
        assert_eq!(json!(reader), record);
        assert_eq!(serde_json::from_value::<Principal>(record).expect("read"), reader);
        let none = Principal::local().with_rights(Rights::NONE);
        assert_eq!(json!(none)["rights"], json!([]));
    }
}
