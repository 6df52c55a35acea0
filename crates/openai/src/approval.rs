//! Ids of responses and of approvals.

use std::fmt;
use uuid::Uuid;
use weftwork_types::{InterruptId, RunId};

/// Beginning of the ids of responses.
const RESPONSE: &str = "resp_";
/// Beginning of the ids of approvals.
const APPROVAL: &str = "mcpr_";

/// Returns the id of the response that a run makes.
pub(crate) fn response_id(run: &RunId) -> String {
    format!("{RESPONSE}{}", digits(run))
}

/// Returns the run of the response with an id; `None` for a text that is no id of a response.
pub(crate) fn run_of_response(id: &str) -> Option<RunId> {
    read_run(id.strip_prefix(RESPONSE)?)
}

/// The id of a call that waits for an approval: the run that asked, and the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalId {
    pub(crate) run: RunId,
    pub(crate) question: InterruptId,
}

impl ApprovalId {
    pub(crate) fn new(run: &RunId, question: InterruptId) -> Self {
        Self { run: run.clone(), question }
    }

    /// Returns the approval with an id; `None` for a text that is no id of one.
    pub(crate) fn read(id: &str) -> Option<Self> {
        let (run, question) = id.strip_prefix(APPROVAL)?.split_once('_')?;
        Some(Self { run: read_run(run)?, question: question.parse().ok()? })
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{APPROVAL}{}_{}", digits(&self.run), self.question)
    }
}

fn digits(run: &RunId) -> String {
    run.as_str().replace('-', "")
}

/// Reads 32 digits, and no other form of a UUID.
fn read_run(digits: &str) -> Option<RunId> {
    let uuid = Uuid::try_parse(digits).ok().filter(|_| digits.len() == 32)?;
    Some(RunId::from_uuid(uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_run_and_its_question_and_no_other_text_is_one() {
        let run = RunId::from_uuid(Uuid::from_u128(0x0123_4567_89ab_cdef));
        let response = response_id(&run);
        assert_eq!(run_of_response(&response), Some(run.clone()));
        let approval = ApprovalId::new(&run, InterruptId(7));
        assert_eq!(ApprovalId::read(&approval.to_string()), Some(approval));
        let hyphens = format!("{RESPONSE}{run}");
        for wrong in ["", "resp_", "resp_0", "msg_0", &hyphens, "resp_{0}", &response[5..]] {
            assert_eq!(run_of_response(wrong), None, "{wrong}");
        }
        for wrong in ["mcpr_", "mcpr_1_2", &response, &format!("mcpr_{}", &response[5..])] {
            assert_eq!(ApprovalId::read(wrong), None, "{wrong}");
        }
    }
}
