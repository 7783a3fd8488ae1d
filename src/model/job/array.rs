//! Names and ids of job arrays and their tasks.
//!
//! An array's submission id is `array-<16 hex digits>`. Its task 4 has the id `array-<16 hex digits>.4`, and
//! the executor reports it as job `123_4`. All tasks of an array share one job name, and one tag in
//! Slurm. The prefix distinguishes our arrays from those that a job script submits.

use super::JobId;
use crate::base::text::number;

/// Prefix of the submission ids of arrays.
const PREFIX: &str = "array-";

/// The part between procedure and digits in an array's job name.
const NAME_PART: &str = "_array_";

/// Number of digits of the submission id in the job name.
const NAME_DIGITS: usize = 8;

const DIGITS: usize = 16;

/// The submission id of an array, from 16 unique hex digits.
pub fn array_id(digits: &str) -> String {
    format!("{PREFIX}{digits}")
}

/// The submission id of one task.
pub fn task_id(array: &str, index: usize) -> String {
    format!("{array}.{index}")
}

/// True for the submission id of an array itself. Strict, because it becomes a directory name.
pub fn is_array_id(submission_id: &str) -> bool {
    submission_id.starts_with(PREFIX) && is_whole_id(submission_id)
}

/// True for the submission id of a single job or of an array itself.
pub(super) fn is_whole_id(id: &str) -> bool {
    id.len() == leading_whole_id(id).len() && !id.is_empty()
}

/// The submission id, possibly truncated, at the start of a text.
pub(super) fn leading_id(text: &str) -> &str {
    let whole = leading_whole_id(text);
    let is_other = |c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c);
    match whole.is_empty() {
        false => whole,
        true => text.split(is_other).next().unwrap_or_default(),
    }
}

fn leading_whole_id(text: &str) -> &str {
    let digits = text.strip_prefix(PREFIX).unwrap_or(text);
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let end = text.len() - digits.len() + DIGITS;
    let is_whole = digits.len() >= DIGITS && digits.bytes().take(DIGITS).all(is_digit);
    text.get(..end).filter(|_| is_whole).unwrap_or_default()
}

/// True if one id is a prefix of the other and both belong to an array.
pub fn share_beginning(a: &str, b: &str) -> bool {
    a.starts_with(PREFIX) && (a.starts_with(b) || b.starts_with(a))
}

/// Splits the submission id of an array's task; `None` for any other id.
pub fn split_task_id(submission_id: &str) -> Option<(&str, usize)> {
    let (array, index) = submission_id.split_once('.')?;
    let index = number(index).filter(|_| is_array_id(array))?;
    Some((array, usize::try_from(index).ok()?))
}

/// The job id of an array's task.
pub fn job_id_of_task(array: &JobId, index: usize) -> JobId {
    JobId::new(&format!("{array}_{index}"))
}

/// Splits the job id of an array's task: `123_4`.
pub fn split_job_id(job: &JobId) -> Option<(&str, usize)> {
    let (array, index) = job.as_str().split_once('_')?;
    Some((array, index.parse().ok()?))
}

/// The job name of all tasks of an array.
pub fn job_name(procedure: &str, array: &str) -> String {
    let digits = array.strip_prefix(PREFIX).unwrap_or(array);
    let digits = digits.get(..NAME_DIGITS).unwrap_or(digits);
    format!("{procedure}{NAME_PART}{digits}")
}

/// Splits an array's job name into the procedure and the start of the submission id.
pub fn split_job_name(name: &str) -> Option<(&str, String)> {
    let (procedure, digits) = name.rsplit_once(NAME_PART)?;
    let array = format!("{PREFIX}{digits}");
    let fits = digits.len() == NAME_DIGITS && is_array_id(&format!("{array}{digits}"));
    (fits && !procedure.is_empty()).then_some((procedure, array))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_parsed() {
        let array = array_id("0123456789abcdef");
        assert!(is_array_id(&array));
        assert_eq!(split_task_id(&task_id(&array, 40)), Some((&*array, 40)));
        let name = job_name("a_array_b", &array);
        assert_eq!(name, "a_array_b_array_01234567");
        assert_eq!(
            split_job_name(&name),
            Some(("a_array_b", "array-01234567".to_owned()))
        );
        for text in [
            "0123456789abcdef",
            "0123456789abcdef.4",
            "array-0123456789abcdef.",
            "array-0123456789abcdef.-1",
            "array-0123456789abcdef.x",
            "array-../../../../etc/p.1",
            "array-0123456789ABCDEF.1",
            "array-0123456789abcdef.99999999999999999999999",
            "",
            ".",
        ] {
            assert_eq!(split_task_id(text), None, "{text}");
            assert!(!is_array_id(text), "{text}");
        }
        for name in [
            "a_sub-01",
            "a_array_",
            "_array_01234567",
            "a_array_0123456z",
        ] {
            assert_eq!(split_job_name(name), None, "{name}");
        }
        let split = |text: &str| {
            split_job_id(&JobId::new(text)).map(|(array, index)| (array.to_owned(), index))
        };
        assert_eq!(split("123_4"), Some(("123".to_owned(), 4)));
        assert_eq!(split("123"), None);
        assert_eq!(split("123_[0-4]"), None);
    }
}
