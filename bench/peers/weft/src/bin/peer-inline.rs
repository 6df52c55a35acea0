//! The lower bound: the same work written by hand.

use peers_harness::{Bound, Cell, Failure};

fn main() -> Result<(), Failure> {
    peers_harness::main::<Bound>(Cell::from_args()?)
}
