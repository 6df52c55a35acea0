//! Codes of faults.

use weftwork_types::ErrorCode;

/// Code of a fault of a node.
pub const NODE_FAILED: ErrorCode = ErrorCode("W0109");
pub(crate) const UNFIT: ErrorCode = ErrorCode("W0103");
pub(crate) const NODE_TIMED_OUT: ErrorCode = ErrorCode("W0117");
pub(crate) const NODE_CANCELLED: ErrorCode = ErrorCode("W0125");
pub(crate) const NO_DEPENDENCIES: ErrorCode = ErrorCode("W0136");
/// Code of the fault of a node that wrote a record in a run that stores none.
pub const RECORDS_NOT_STORED: ErrorCode = ErrorCode("W0141");
pub(crate) const CRASH_LOOP: ErrorCode = ErrorCode("W0130");
pub(crate) const NODE_PANICKED: ErrorCode = ErrorCode("W0110");
