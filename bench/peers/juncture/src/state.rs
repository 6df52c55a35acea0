//! The states of the cases.
#![expect(unreachable_pub, reason = "the derive macro writes public items")]

use juncture_derive::State;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Chain {
    pub n: u64,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fan {
    pub n: u64,
    #[reducer(append)]
    pub items: Vec<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    pub content: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct React {
    #[reducer(append)]
    pub messages: Vec<Message>,
}

/// A state has at most 64 fields, so the additional keys are in one field.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wide {
    pub n: u64,
    pub keys: HashMap<String, String>,
}
