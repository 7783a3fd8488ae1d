//! Builds the command line of sbatch. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use itertools::Itertools as _;
use serde_json::{Map, Value};

use crate::base::text::maybe;
use crate::executor::array::WRAPPER;
use crate::executor::{ArrayJob, JobRequest};
use crate::model::job::JobTag;
use crate::model::procedure::options::{self, Arguments};

/// The command line for one job, or for an array with this number of tasks, which get their arguments from the array's
/// wrapper. `header` has the options in the `#SBATCH` lines of the job script.
pub(super) fn argv(
    request: &JobRequest,
    array: Option<(&ArrayJob, usize)>,
    sbatch: PathBuf,
    script: PathBuf,
    header: &Arguments,
) -> Vec<OsString> {
    let (submission_id, job_name, log_symbols) = match array {
        Some((array, _)) => (&array.submission_id, &array.job_name, "%A_%a"),
        None => (&request.submission_id, &request.job_name, "%j"),
    };
    let tag = JobTag {
        project: request.project.clone(),
        submission_id: submission_id.clone(),
    };
    let resources = &request.resources;
    let mut sbatch_args = resources.sbatch_args.clone();
    let comment = sbatch_args.value("comment").or(header.value("comment"));
    let comment = comment.map(|text| beside(&tag, text));
    sbatch_args.remove("comment");
    let mut argv: Vec<OsString> = vec![sbatch.into(), "--parsable".into()];
    // The first one stays in accounting's SubmitLine; the last one becomes the job's comment.
    push(&mut argv, "comment", Some(&tag));
    push(&mut argv, "comment", comment);
    push(&mut argv, "export", Some(export(request, header)));
    for (name, value) in resources.named() {
        push(&mut argv, name, Some(value));
    }
    push(&mut argv, "job-name", Some(job_name));
    let indexes = array.map(|(array, count)| {
        let last = count.saturating_sub(1);
        format!("0-{last}{}", maybe("%", array.throttle, ""))
    });
    push(&mut argv, "array", indexes);
    if let Some(dir) = &request.log_dir {
        for (name, ending) in [("output", "out"), ("error", "err")] {
            let mut option = OsString::from(format!("--{name}="));
            option.push(log_pattern(dir, job_name, log_symbols, ending));
            argv.push(option);
        }
    }
    if resources.no_requeue && !options::decide_requeue(header) {
        argv.push("--no-requeue".into());
    }
    argv.extend(sbatch_args.words().map(OsString::from));
    match array {
        Some((array, _)) => argv.push(array.dir.join(WRAPPER).into()),
        None => {
            argv.push(script.into());
            argv.extend(request.arguments.iter().map(OsString::from));
        }
    }
    argv
}

/// Adds the tag to a comment that the site reads: into a JSON object, or before the text.
fn beside(tag: &JobTag, comment: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(comment) {
        Ok(mut object) => {
            object.insert("snbb".to_owned(), tag.to_string().into());
            Value::Object(object).to_string()
        }
        // A line break in a comment would break squeue's answers.
        Err(_) => format!("{tag} {}", comment.replace(char::is_control, " ")),
    }
}

/// The variables of the job: all of the caller's, or those that the script selects and our own.
fn export(request: &JobRequest, header: &Arguments) -> String {
    let Some(wanted) = header.value("export") else {
        return "ALL".to_owned();
    };
    let is = |name: &str, word: &str| name.trim().eq_ignore_ascii_case(word);
    if wanted.split(',').any(|name| is(name, "ALL")) {
        return wanted.to_owned();
    }
    let wanted = (!["", "NONE", "NIL"].iter().any(|word| is(wanted, word))).then_some(wanted);
    let own = request.env.keys().map(String::as_str);
    wanted.into_iter().chain(own).join(",")
}

/// Adds an option with a value; an empty text in the configuration means no option.
fn push(argv: &mut Vec<OsString>, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value
        .map(|value| value.to_string())
        .filter(|text| !text.is_empty())
    {
        argv.push(format!("--{name}={value}").into());
    }
}

/// sbatch's file name pattern for a job's log; `%` starts a symbol, so other ones are doubled.
fn log_pattern(dir: &Path, job_name: &str, symbols: &str, ending: &str) -> OsString {
    let mut bytes = Vec::new();
    for byte in dir.join(job_name).as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b'%' {
            bytes.push(b'%');
        }
    }
    bytes.extend_from_slice(format!("_{symbols}.{ending}").as_bytes());
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::request::batch::testing::prepared;

    /// The arguments for a task whose script has these `#SBATCH` options.
    fn arguments(sbatch_args: &[&str], header: &[&str]) -> Vec<String> {
        let words =
            |list: &[&str]| -> Arguments { list.iter().map(|text| (*text).to_owned()).collect() };
        let mut request = prepared("prep", 1).request;
        request.submission_id = "id".to_owned();
        request.project = "study".to_owned();
        request.resources.sbatch_args = words(sbatch_args);
        request.env = ["SNBB_SESSION", "SNBB_SUBJECT"]
            .map(|name| (name.to_owned(), "x".to_owned()))
            .into();
        let header = words(header);
        let argv = super::argv(&request, None, "sbatch".into(), "a.sh".into(), &header);
        let texts = argv.into_iter().map(|part| part.into_string().unwrap());
        texts.collect()
    }

    #[test]
    fn a8_the_scripts_export_is_respected_and_our_variables_are_added() {
        for (header, expected) in [
            (&[][..], "--export=ALL"),
            (&["--export=NONE"], "--export=SNBB_SESSION,SNBB_SUBJECT"),
            (&["--export", "nil"], "--export=SNBB_SESSION,SNBB_SUBJECT"),
            (
                &["-N1", "--export=PATH,A=b"],
                "--export=PATH,A=b,SNBB_SESSION,SNBB_SUBJECT",
            ),
            (&["--export=ALL,A=b"], "--export=ALL,A=b"),
            (&["--export-file=x"], "--export=ALL"),
        ] {
            let argv = arguments(&[], header);
            let found: Vec<_> = argv.iter().filter(|a| a.starts_with("--export=")).collect();
            assert_eq!(found, [expected], "{header:?}");
        }
    }

    #[test]
    fn weak_slurm_requeues_no_job_with_retry_rules_unless_the_script_wants_it() {
        let mut request = prepared("prep", 1).request;
        request.resources.no_requeue = true;
        for (header, is_passed) in [
            (&[][..], true),
            (&["--requeue"], false),
            (&["--no-req"], false),
        ] {
            let header: Arguments = header.iter().map(|text| (*text).to_owned()).collect();
            let argv = super::argv(&request, None, "sbatch".into(), "a.sh".into(), &header);
            assert_eq!(argv.contains(&OsString::from("--no-requeue")), is_passed);
        }
    }

    #[test]
    fn a10_a_comment_of_the_site_is_kept_beside_the_tag() {
        for (sbatch_args, header, expected) in [
            (&[][..], &[][..], "snbb:study:id"),
            (
                &["--comment=project 7"],
                &["--comment=no"],
                "snbb:study:id project 7",
            ),
            (&["--com", "a\nb"], &[], "snbb:study:id a b"),
            (&[], &["--comment=project 7"], "snbb:study:id project 7"),
            (
                &[],
                &[r#"--comment={"project":"p"}"#],
                r#"{"project":"p","snbb":"snbb:study:id"}"#,
            ),
        ] {
            let argv = arguments(sbatch_args, header);
            let comments: Vec<_> = argv
                .iter()
                .filter_map(|a| a.strip_prefix("--comment="))
                .collect();
            assert_eq!(comments.first(), Some(&"snbb:study:id"));
            assert_eq!(comments.last(), Some(&expected));
            let tag = JobTag::parse(expected).unwrap();
            assert_eq!(tag.to_string(), "snbb:study:id");
        }
    }
}
