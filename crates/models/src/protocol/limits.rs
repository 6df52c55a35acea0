//! Limits of protocols for the values of options.

use super::Protocol;
use crate::chat::ChatRequest;

impl Protocol {
    /// Checks the values of options that the protocol limits.
    ///
    /// # Errors
    /// The option, what was found and expected, and the fix.
    pub(super) fn check_options(self, request: &ChatRequest) -> Result<(), String> {
        let name = self.name();
        let found = request.stop.len();
        if let Some(limit) = self.stop_texts_max()
            && found > limit
        {
            let more = found - limit;
            return Err(format!(
                "`stop` has {found} texts, expected at most {limit} in the protocol `{name}`; \
                 leave {more} of them out"
            ));
        }
        let blank = request.stop.iter().find(|text| text.trim().is_empty());
        if let Some(blank) = blank.filter(|_| self == Self::Anthropic) {
            return Err(format!(
                "`stop` has the text {blank:?}, expected a character other than white space in the \
                 protocol `{name}`; leave the text out"
            ));
        }
        let seed = request.seed.filter(|_| self == Self::Gemini);
        match seed.filter(|seed| i32::try_from(*seed).is_err()) {
            Some(seed) => Err(format!(
                "`seed` is {seed}, expected a number from {} to {} in the protocol `{name}`; \
                 choose another one",
                i32::MIN,
                i32::MAX
            )),
            None => Ok(()),
        }
    }

    /// Maximum number of stop texts of a request; `None` without a documented limit.
    fn stop_texts_max(self) -> Option<usize> {
        match self {
            Self::Openai => Some(4),
            Self::Gemini => Some(5),
            Self::OpenaiResponses | Self::Anthropic => None,
        }
    }
}
