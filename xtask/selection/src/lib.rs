//! Empty; see the manifest.
