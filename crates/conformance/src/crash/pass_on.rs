//! Functions of checkpointers that pass everything on to another one.

/// Implements functions of a `Checkpointer` by those of the field `checkpointer`. With `by call:`,
/// each of them is passed as a future to the function `call` of the implementation. Tests of other
/// crates include this file.
macro_rules! pass_on {
    (by $call:ident: $($name:ident),+ $(,)?) => { $(pass_on!(@$name $call);)+ };
    ($($name:ident),+ $(,)?) => { $(pass_on!(@$name);)+ };
    (@load $($call:ident)?) => {
        pass_on!(@fn load(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, id: Option<CheckpointId>,
        ) -> Option<StoredCheckpoint> $(, $call)?);
    };
    (@newest $($call:ident)?) => {
        pass_on!(@fn newest(at: &'a CheckpointAddress) -> Option<CheckpointId> $(, $call)?);
    };
    (@newest_of_all $($call:ident)?) => {
        pass_on!(@fn newest_of_all(thread: &'a str) -> Option<CheckpointId> $(, $call)?);
    };
    (@list $($call:ident)?) => {
        pass_on!(@fn list(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, before: Option<CheckpointId>, limit: usize,
        ) -> Vec<StoredCheckpoint> $(, $call)?);
    };
    (@put_outside $($call:ident)?) => {
        pass_on!(@fn put_outside(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, of: CheckpointId, outside: ExternalInput,
        ) -> () $(, $call)?);
    };
    (@delete $($call:ident)?) => { pass_on!(@fn delete(thread: &'a str) -> () $(, $call)?); };
    (@copy $($call:ident)?) => {
        pass_on!(@fn copy(from: &'a str, to: &'a str) -> () $(, $call)?);
    };
    (@graphs $($call:ident)?) => {
        pass_on!(@fn graphs(thread: &'a str) -> Vec<Arc<str>> $(, $call)?);
    };
    (@prune $($call:ident)?) => {
        pass_on!(@fn prune(
            at: &'a CheckpointAddress, plan: &'a Arc<Plan>, keep: usize,
        ) -> () $(, $call)?);
    };
    (@fn $name:ident($($arg:ident: $type:ty),+ $(,)?) -> $result:ty) => {
        fn $name<'a>(
            &'a self,
            $($arg: $type),+
        ) -> BoxFuture<'a, Result<$result, CheckpointerError>> {
            self.checkpointer.$name($($arg),+)
        }
    };
    (@fn $name:ident($($arg:ident: $type:ty),+ $(,)?) -> $result:ty, $call:ident) => {
        fn $name<'a>(
            &'a self,
            $($arg: $type),+
        ) -> BoxFuture<'a, Result<$result, CheckpointerError>> {
            self.$call(async move { self.checkpointer.$name($($arg),+).await })
        }
    };
}
pub(crate) use pass_on;
