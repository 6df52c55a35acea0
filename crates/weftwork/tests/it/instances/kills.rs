//! A process that is killed while it executes activities: each is executed once, in order.
