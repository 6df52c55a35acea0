//! Frames of stream modes as JSON.

use crate::snapshot::{snapshot_to_json, writes_to_json};
use serde_json::{Value, json};
use weftwork::graph::{MessagePart, StreamEvent};
use weftwork::runtime::{Frame, FrameContent};

/// Returns a frame as JSON: its position, its time, the namespace of its graph, its mode, and what
/// the mode shows.
pub fn frame_to_json(frame: &Frame) -> Value {
    let (ns, mode, data) = match &frame.content {
        FrameContent::Item(item) => {
            let (mode, data) = event_to_json(&item.event);
            (item.ns.join("|"), mode, data)
        }
        FrameContent::Dropped { ns, reason } => (ns.clone(), "dropped", json!({"reason": reason})),
    };
    let position = frame.position.to_string();
    json!({"position": position, "at": frame.at, "mode": mode, "ns": ns, "data": data})
}

fn event_to_json(event: &StreamEvent) -> (&'static str, Value) {
    match event {
        StreamEvent::Values { values, interrupts } => {
            ("values", json!({"values": values, "interrupts": interrupts}))
        }
        StreamEvent::Updates { node, updates, returned, cached } => {
            let updates: Vec<_> = updates.iter().map(|writes| writes_to_json(writes)).collect();
            let mut data = json!({"node": node, "updates": updates, "cached": cached});
            if let Some(returned) = returned {
                data["returned"] = returned.clone();
            }
            ("updates", data)
        }
        StreamEvent::Interrupts(questions) => ("updates", json!({"interrupts": questions})),
        StreamEvent::TaskStarted(task) => (
            "tasks",
            json!({
                "id": task.id, "node": task.name, "input": task.input, "triggers": task.triggers,
            }),
        ),
        StreamEvent::TaskEnded(task) => (
            "tasks",
            json!({
                "id": task.id, "node": task.name, "writes": writes_to_json(&task.result),
                "error": task.error, "interrupts": task.interrupts,
            }),
        ),
        StreamEvent::Checkpoint(found) => ("checkpoints", snapshot_to_json(found)),
        StreamEvent::Custom(value) => ("custom", value.clone()),
        StreamEvent::Data { mode, data } => (mode.name().unwrap_or("custom"), data.clone()),
        StreamEvent::Message { part, node, step } => {
            let mut data = match part {
                MessagePart::Chunk { id, text } => json!({"id": id, "text": text}),
                MessagePart::Reset { id } => json!({"id": id, "reset": true}),
                MessagePart::Returned(write) => json!({"message": write}),
            };
            data["node"] = json!(node);
            data["step"] = json!(step);
            ("messages", data)
        }
        StreamEvent::Debug { step, event: inner } => {
            let (kind, data) = event_to_json(inner);
            ("debug", json!({"step": step, "type": kind, "payload": data}))
        }
    }
}
