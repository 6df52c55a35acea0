//! Graphs run through the runtime on the memory store.
#![expect(clippy::expect_used, reason = "a test says what it relies on")]

mod attempts;
mod bad_bytes;
mod behind;
mod budgets;
mod calls;
mod damage;
mod dependencies;
mod depth;
mod drawings;
mod ends;
mod faults;
mod faulty;
mod front;
mod golden;
mod items;
mod local;
mod multitask;
mod pause;
mod peers;
mod pieces;
mod points;
mod races;
mod recovery;
mod requeue;
mod retention;
mod retire;
mod sim;
mod supersteps;
mod support;
mod texts;
mod threads;
mod travel;
mod ui;
mod wakes;
mod wrong;
