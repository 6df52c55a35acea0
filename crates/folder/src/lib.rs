//! A folder of files as back end of built-in tools: [`Folder`] for the port
//! [`Repository`](weftwork_tools::builtin::Repository), [`Documents`] for
//! [`WebSearch`](weftwork_tools::builtin::WebSearch).
//!
//! Nothing outside the folder can be reached: each part of a path is opened relative to the folder
//! before it, links are not followed, and `..` and absolute paths are refused. Files that are no
//! text, and entries whose name begins with a dot, are passed over by searches. A search is limited
//! in time, entries, bytes and depth. A hard link to a file outside is not recognised.

mod documents;
mod folder;
mod root;
mod walk;

pub use documents::Documents;
pub use folder::{Folder, LINE_CHARS_MAX, TEXT_BYTES_MAX};
pub use root::PARTS_MAX;
pub use walk::{BYTES_MAX, DEPTH_MAX, ENTRIES_MAX, FILE_BYTES_MAX, TIME_MAX};
