//! Functions of checkpointers that pass everything on to another one.

/// Implements functions of a `Checkpointer` by those of the field `checkpointer`.
macro_rules! pass_on {
    ($($name:ident),+ $(,)?) => { $(pass_on!(@$name);)+ };
    (@load) => {
        pass_on!(@fn load(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, id: Option<CheckpointId>,
        ) -> Option<StoredCheckpoint>);
    };
    (@newest) => {
        pass_on!(@fn newest(at: &'a CheckpointAddress) -> Option<CheckpointId>);
    };
    (@newest_of_all) => {
        pass_on!(@fn newest_of_all(thread: &'a str) -> Option<CheckpointId>);
    };
    (@list) => {
        pass_on!(@fn list(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, before: Option<CheckpointId>, limit: usize,
        ) -> Vec<StoredCheckpoint>);
    };
    (@put_outside) => {
        pass_on!(@fn put_outside(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, of: CheckpointId, outside: ExternalInput,
        ) -> ());
    };
    (@delete) => { pass_on!(@fn delete(thread: &'a str) -> ()); };
    (@copy) => { pass_on!(@fn copy(from: &'a str, to: &'a str) -> ()); };
    (@graphs) => { pass_on!(@fn graphs(thread: &'a str) -> Vec<Arc<str>>); };
    (@prune) => {
        pass_on!(@fn prune(at: &'a CheckpointAddress, plan: &'a Arc<Plan>, keep: usize) -> ());
    };
    (@fn $name:ident($($arg:ident: $type:ty),+ $(,)?) -> $result:ty) => {
        fn $name<'a>(
            &'a self,
            $($arg: $type),+
        ) -> BoxFuture<'a, Result<$result, CheckpointerError>> {
            self.checkpointer.$name($($arg),+)
        }
    };
}
pub(crate) use pass_on;
