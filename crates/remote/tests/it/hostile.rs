//! Servers that send what they should not.
