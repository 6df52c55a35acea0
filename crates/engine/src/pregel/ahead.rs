//! The state with the writes of one task, before its superstep is closed.

use super::{Done, Path, Task};
use crate::error::EngineError;
use crate::plan::{ChannelIdx, NodeIdx, Plan};
use crate::task::TaskOutput;
use crate::value::Slots;

/// The state with the writes of a task: the input of routers, and the result of the superstep if
/// the task was its only one, so that writes are not applied twice.
#[derive(Debug, Clone)]
pub struct Ahead {
    before: Slots,
    after: Slots,
    written: Vec<ChannelIdx>,
}

impl Ahead {
    /// The state for a router of the finished task: the state at the start of the superstep with
    /// that task's writes, without values that last one superstep only.
    #[must_use]
    pub fn seen(&self, plan: &Plan) -> Slots {
        let mut seen = self.after.clone();
        for index in &plan.lapsing {
            if !self.written.contains(&ChannelIdx(*index)) {
                seen.set(*index, None);
            }
        }
        seen
    }

    /// Replaces a state by the one with the writes; returns `false` if it is not the state that
    /// they were applied to.
    pub(super) fn reach(self, slots: &mut Slots, written: &mut Vec<ChannelIdx>) -> bool {
        let same = self.before.is(slots);
        if same {
            (*slots, *written) = (self.after, self.written);
        }
        same
    }
}

impl Plan {
    /// Applies the writes of a finished task to the state at the start of its superstep.
    ///
    /// # Errors
    /// [`EngineError`] if a write cannot be applied.
    pub fn ahead(
        &self,
        slots: &Slots,
        by: NodeIdx,
        output: &TaskOutput,
    ) -> Result<Ahead, EngineError> {
        let before = slots.clone();
        let mut after = slots.clone();
        let task = Task { node: by, path: Path::Pull, arg: None };
        let mut written = Vec::new();
        let done = [Done { task: &task, output, edges: false }];
        self.fold_all(&mut after, &done, &mut written)?;
        Ok(Ahead { before, after, written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Append, Ephemeral};
    use crate::list::List;
    use crate::plan::PlanBuilder;
    use crate::pregel::{Machine, StartInput};
    use crate::value::Write;
    use serde_json::json;
    use std::sync::Arc;

    fn plan() -> Arc<Plan> {
        let mut plan = PlanBuilder::default();
        plan.channel("log", Arc::new(Append::<u64>::new()));
        plan.channel("brief", Arc::new(Ephemeral::<u64>::one()));
        plan.node("a");
        plan.edge("START", "a");
        Arc::new(plan.build().expect("a sound graph"))
    }

    fn wrote(items: serde_json::Value) -> TaskOutput {
        let mut output = TaskOutput::default();
        output.write(ChannelIdx(0), Write::json(items));
        output
    }

    /// A machine whose node `a` is due.
    fn started() -> Machine {
        let mut machine = Machine::new(plan());
        machine
            .take_input(StartInput::Json(Arc::new(json!({"log": [1], "brief": 7}))))
            .expect("sound");
        let input = machine.start_output().expect("fits");
        let task = machine.due().expect("sound").pop().expect("the input");
        let done = Done { task: &task, output: &input, edges: true };
        machine.apply(&mut [done], &mut Vec::new()).expect("applies");
        machine
    }

    fn closed(mut machine: Machine, output: &TaskOutput, ahead: Option<Ahead>) -> Machine {
        let task = machine.due().expect("sound").pop().expect("`a`");
        let mut written = Vec::new();
        let done = Done { task: &task, output, edges: true };
        machine.apply_ahead(&mut [done], ahead, &mut written).expect("applies");
        assert_eq!(written, [ChannelIdx(0)]);
        machine
    }

    fn shown(machine: &Machine) -> String {
        let value = |name: &str| machine.plan().channel_json(machine.slots(), name);
        format!("{:?} {:?} {:?}", value("log"), value("brief"), machine.control())
    }

    #[test]
    fn a_superstep_ends_the_same_when_its_writes_were_applied_before() {
        let machine = started();
        let output = wrote(json!([2, 3]));
        let ahead = machine.plan().ahead(machine.slots(), NodeIdx(0), &output).expect("applies");
        let seen = ahead.seen(machine.plan());
        assert_eq!(machine.plan().channel_json(&seen, "log"), Some(json!([1, 2, 3])));
        assert_eq!(machine.plan().channel_json(&seen, "brief"), None, "it lasts one superstep");
        let items = |slots: &Slots| slots.get(0).cloned().expect("a list");
        let made = items(&ahead.after);
        let reached = closed(machine.clone(), &output, Some(ahead));
        assert!(items(reached.slots()).is(&made), "it is not made twice");
        assert_eq!(shown(&reached), shown(&closed(machine, &output, None)));
    }

    #[test]
    fn what_was_applied_to_another_state_is_not_taken() {
        let machine = started();
        let output = wrote(json!([2]));
        let other = started();
        let ahead = other.plan().ahead(other.slots(), NodeIdx(0), &wrote(json!([9])));
        let closed = closed(machine, &output, ahead.ok());
        let log = closed.slots().get(0).and_then(|value| value.get::<List<u64>>().cloned());
        assert_eq!(log, Some(List::from(vec![1, 2])));
    }
}
