//! Specs in, traces out.

use crate::{Setting, Spec, SpecError, play};
use serde_json::{Value as Json, json};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time limit of a spec, each time it is played.
pub const GUARD: Duration = Duration::from_secs(20);
/// Extra time for a spec that cannot be cut off because it never yields.
const GRACE: Duration = Duration::from_secs(2);
/// Stack size of the thread on which a spec is played. Deeply nested subgraphs need some of it.
const STACK_BYTES: usize = 32 << 20;

/// Plays the spec in a text. What keeps it from being played is told in place of its trace, as
/// `harness_error`: text that is no spec, a panic, and [`GUARD`]. A spec about which the mode says
/// nothing is answered with the reason, as `not_applicable`; one whose trace was another one after
/// crashes, with what was found after each, as `crash_error`.
#[must_use]
pub fn answer(text: &str, setting: impl Into<Setting>) -> Json {
    let setting = setting.into();
    let spec = match Spec::parse(text) {
        Ok(spec) => spec,
        Err(error) => return counted(&setting, refused(&error)),
    };
    if let Some(reason) = setting.not_applicable(&spec) {
        setting.count(|tally| *tally.not_applicable.entry(reason).or_default() += 1);
        return json!({ "not_applicable": reason });
    }
    let limit = setting.limit();
    let on = setting.clone();
    counted(&setting, guarded(move || on_own_runtime(&spec, &on), limit + GRACE))
}

fn counted(setting: &Setting, answer: Json) -> Json {
    let failed = ["harness_error", "crash_error"].iter().any(|name| answer.get(name).is_some());
    setting.count(|tally| {
        tally.played += 1;
        tally.failed += u64::from(failed);
    });
    answer
}

/// Answers each line with one line, until there are no more.
///
/// Empty lines are passed over. Each answer is written out before the next line is read.
///
/// # Errors
/// Errors of reading and writing.
pub fn batch(
    mut input: impl BufRead,
    mut output: impl Write,
    setting: impl Into<Setting>,
) -> io::Result<()> {
    let setting = setting.into();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            writeln!(output, "{}", answer(&text, setting.clone()))?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

fn refused(error: &SpecError) -> Json {
    json!({ "harness_error": format!("{}: {error}", error.code()) })
}

fn on_own_runtime(spec: &Spec, setting: &Setting) -> Json {
    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(async {
            let limit = setting.limit();
            let played = tokio::time::timeout(limit, play(spec, setting)).await;
            played.unwrap_or_else(|_| late(limit))
        }),
        Err(error) => json!({ "harness_error": format!("no runtime: {error}") }),
    }
}

fn late(limit: Duration) -> Json {
    json!({ "harness_error": format!("no result within {} s", limit.as_secs()) })
}

/// Does a piece of work on a thread of its own, and gives up on it when it panics or takes too
/// long. An abandoned thread continues until its work is done; nothing waits for it.
fn guarded(work: impl FnOnce() -> Json + Send + 'static, limit: Duration) -> Json {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("spec".to_owned()).stack_size(STACK_BYTES);
    let started = thread.spawn(move || {
        // There is no receiver any more when the limit has passed.
        sender.send(work()).unwrap_or_default();
    });
    if let Err(error) = started {
        return json!({ "harness_error": format!("no thread: {error}") });
    }
    match receiver.recv_timeout(limit) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => late(limit),
        Err(RecvTimeoutError::Disconnected) => {
            json!({ "harness_error": "playing the spec panicked" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::guarded;
    use serde_json::json;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn panics_and_endless_work_are_told() {
        assert_eq!(guarded(|| json!(1), LONG), json!(1));
        let panicked = guarded(|| panic!("in a spec"), LONG);
        assert_eq!(panicked, json!({"harness_error": "playing the spec panicked"}));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let endless = move || {
            held.recv().unwrap_or_default();
            json!(1)
        };
        let late = guarded(endless, Duration::from_millis(1));
        assert_eq!(late, json!({"harness_error": "no result within 0 s"}));
        drop(release);
    }
}
