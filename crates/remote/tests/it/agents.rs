//! Remote graphs as agents of their own.
