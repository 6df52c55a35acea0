//! Graphs as their authors write them.

mod ui;
