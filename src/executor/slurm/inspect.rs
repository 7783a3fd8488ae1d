//! Asks Slurm about a site, for `check` and `init`. Submits nothing: `sbatch --test-only` shows the outcome of a
//! submission.
//!
//! Collects the answers for `check`, which `setup::check::slurm` interprets, and the partitions and accounts that a
//! user can choose from in `init`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use itertools::Itertools as _;

use super::client::SlurmExecutor;
use super::command::{self, Commands, is_without_accounting, one_line};
use super::sbatch_answer;
use super::sbatch_line::argv;
use crate::base::run::End;
use crate::base::sys;
use crate::executor::script::header_of;
use crate::executor::{
    Executor as _, ExecutorError, JobReport, JobRequest, Question, Refusal, Submission,
};
use crate::model::job::JobId;

/// The answers of Slurm; `None` if an earlier failure made the question pointless.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of [`PROGRAMS`].
    pub programs: Vec<(&'static str, Result<PathBuf, ExecutorError>)>,
    pub version: Option<Result<String, String>>,
    /// The user's jobs in the queue.
    pub queue: Option<Result<Vec<JobReport>, String>>,
    pub accounting: Option<Result<String, String>>,
    pub config: Option<Result<String, String>>,
    /// This host's time before and after the query for the controller's time.
    pub asked_at: Option<(DateTime<Utc>, DateTime<Utc>)>,
    pub partitions: Option<Result<String, String>>,
    pub associations: Option<Result<String, String>>,
    pub qos: Option<Result<String, String>>,
    /// By procedure.
    pub tried: Vec<(String, Tried)>,
}

/// The outcome of a test submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// With sbatch's message.
    Fine(String),
    Refused {
        kind: Refusal,
        message: String,
    },
    /// Slurm gave no clear answer.
    Unclear(String),
    /// The site's sbatch does not support `--test-only`, and has submitted a job.
    Submitted(JobId),
    /// The script is missing or unfit, which another check reports.
    NoScript,
}

/// The programs to find. The first four are required.
pub const PROGRAMS: [&str; 6] = [
    "sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr",
];

/// The text of an answer; empty without one.
pub fn text_of(answer: Option<&Result<String, String>>) -> &str {
    answer
        .and_then(|answer| answer.as_ref().ok())
        .map_or("", String::as_str)
}

impl SlurmExecutor {
    /// Asks all questions in order; stops if the queue does not answer. `requests` has one request per procedure, `canary`
    /// is a job that accounting must have.
    pub fn inspect(&mut self, requests: &[JobRequest], canary: Option<&JobId>) -> Report {
        let mut report = Report {
            programs: PROGRAMS.map(|name| (name, self.commands.find(name))).into(),
            version: self.ask_if_there("sbatch", &["--version"]),
            ..Report::default()
        };
        if self.commands.find("squeue").is_ok() {
            report.queue = Some(self.queue_of(&Question::default(), &[None]));
        }
        let job = canary.map_or("1", JobId::as_str);
        let job = format!("--jobs={job}");
        let arguments = ["-X", "-n", "-P", "--format=JobID", &job];
        report.accounting = self.ask_if_there("sacct", &arguments);
        if !matches!(report.queue, Some(Ok(_))) {
            return report;
        }
        let before = sys::now();
        report.config = self.ask_if_there("scontrol", &["show", "config"]);
        report.asked_at = Some((before, sys::now()));
        let arguments = ["--all", "--oneliner", "show", "partition"];
        report.partitions = self.ask_if_there("scontrol", &arguments);
        if self.settings.accounting {
            let user = format!("user={}", sys::user_name());
            let format = "format=account,partition,maxwall";
            let arguments = ["-n", "-P", "show", "assoc", "where", &user, format];
            report.associations = self.ask_if_there("sacctmgr", &arguments);
            let arguments = ["-n", "-P", "show", "qos", "format=name,maxwall"];
            report.qos = self.ask_if_there("sacctmgr", &arguments);
        }
        if self.commands.find("sbatch").is_ok() {
            for request in requests {
                let tried = self.try_only(request);
                // Does not wait again for a controller that does not answer.
                let is_over = matches!(tried, Tried::Unclear(_));
                let procedure = request.key.procedure.to_string();
                report.tried.push((procedure, tried));
                if is_over {
                    break;
                }
            }
        }
        report
    }

    fn ask_if_there(
        &mut self,
        program: &str,
        arguments: &[&str],
    ) -> Option<Result<String, String>> {
        self.commands.find(program).ok()?;
        Some(self.ask(program, arguments))
    }

    /// Tests a submission with exactly the options of a real one.
    fn try_only(&self, request: &JobRequest) -> Tried {
        let places = self.commands.find("sbatch").and_then(|sbatch| {
            let script = self.find_script(&request.script)?;
            Ok((sbatch, script))
        });
        let (sbatch, script) = match places {
            Ok(places) => places,
            Err(ExecutorError::ScriptMissing { .. } | ExecutorError::ScriptUnfit { .. }) => {
                return Tried::NoScript;
            }
            Err(error) => return Tried::Unclear(error.to_string()),
        };
        let header = header_of(&script);
        let mut argv = argv(request, None, sbatch, script, &header);
        argv.insert(1, OsString::from("--test-only"));
        let Some(limit) = self.time.for_submission() else {
            return Tried::Unclear("no time left to ask".to_owned());
        };
        match self.commands.submit(&argv, &request.env, limit) {
            Err(error) => Tried::Unclear(format!("cannot start sbatch: {error}")),
            Ok(ended) => match sbatch_answer::judge(ended.end, &ended.stdout, &ended.stderr) {
                Submission::Accepted { job_id, .. } => Tried::Submitted(job_id),
                Submission::Refused { kind, message } => Tried::Refused { kind, message },
                Submission::InDoubt { .. } if ended.end == End::Exit(0) => {
                    Tried::Fine(one_line(&ended.stderr))
                }
                Submission::InDoubt { message } => Tried::Unclear(message),
            },
        }
    }
}

/// Longer would be too long for a list of choices.
const LIMIT: Duration = Duration::from_secs(10);

/// The choices. Empty where a query failed, for the reason in `problems`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// The directory of sbatch; `None` without Slurm.
    pub bin_dir: Option<PathBuf>,
    /// True if Slurm's commands are installed, but no cluster is configured.
    pub has_no_cluster: bool,
    pub partitions: Vec<Partition>,
    /// Accounts that the user may use.
    pub accounts: Vec<String>,
    pub default_account: Option<String>,
    /// True if sacct is missing or reports that accounting is disabled.
    pub has_no_accounting: bool,
    /// One sentence each.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub is_default: bool,
    /// Accepts jobs.
    pub is_up: bool,
    /// As Slurm writes it: `1-00:00:00`, `infinite`.
    pub time_limit: String,
}

/// Asks Slurm. `env` is the environment of the calling process, `user` a name.
pub fn ask_offers(env: Vec<(OsString, OsString)>, user: &str) -> Offers {
    let commands = Commands::new(None, env);
    let Ok(sbatch) = commands.find("sbatch") else {
        return Offers::default();
    };
    let mut offers = Offers {
        bin_dir: sbatch.parent().map(PathBuf::from),
        ..Offers::default()
    };
    let answer = |program: &str, arguments: &[&str]| {
        let ended = commands.query(program, arguments, LIMIT);
        command::answer(program, ended.map_err(|error| error.to_string())?)
    };
    match answer("sinfo", &["--all", "--noheader", "--format=%P|%a|%l"]) {
        Ok(text) => offers.partitions = partitions(&text),
        // If sinfo fails, the other queries probably fail too.
        Err(problem) => {
            // Messages of Slurm's commands (20.11 to 25.05) if `slurm.conf` is neither a file nor from a server.
            let without = ["configuration source", "configuration file", "slurm.conf"];
            offers.has_no_cluster = without.iter().any(|part| problem.contains(part));
            offers.problems.push(problem);
            return offers;
        }
    }
    let who = format!("user={user}");
    let start = ["-n", "-P", "--readonly", "show", "user", "withassoc"];
    let arguments = [&start[..], &[&who, "format=user,defaultaccount,account"]].concat();
    match answer("sacctmgr", &arguments) {
        Ok(text) => (offers.default_account, offers.accounts) = accounts(&text),
        // There are no accounts without a database.
        Err(problem) if problem.contains("accounting_storage") => {}
        Err(problem) => offers.problems.push(problem),
    }
    offers.has_no_accounting = commands.find("sacct").is_err()
        || answer("sacct", &["-X", "-n", "--jobs=1"])
            .is_err_and(|problem| is_without_accounting(&problem));
    offers
}

/// Reads lines `name*|up|1-00:00:00`. A partition has a line per limit and state.
fn partitions(text: &str) -> Vec<Partition> {
    let partition = |line: &str| {
        let mut fields = line.trim().split('|');
        let (name, state) = (fields.next()?, fields.next()?);
        Some(Partition {
            name: name.strip_suffix('*').unwrap_or(name).to_owned(),
            is_default: name.ends_with('*'),
            is_up: state == "up",
            time_limit: fields.next().unwrap_or_default().to_owned(),
        })
    };
    let found = text.lines().filter_map(partition);
    let named = found.filter(|partition| !partition.name.is_empty());
    named
        .unique_by(|partition| partition.name.clone())
        .collect()
}

/// Reads lines `user|default account|account`.
fn accounts(text: &str) -> (Option<String>, Vec<String>) {
    let mut default = None;
    let mut accounts: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut fields = line.trim().split('|').skip(1).map(str::trim);
        let first = fields.next().filter(|name| !name.is_empty());
        default = default.or(first.map(str::to_owned));
        let account = fields.next().filter(|name| !name.is_empty());
        accounts.extend(account.map(str::to_owned));
    }
    accounts.sort_unstable();
    accounts.dedup();
    (default, accounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_read_once_each() {
        let text =
            "debug*|up|1:00:00\nlong|up|7-00:00:00\nlong|up|7-00:00:00\nold|inact|infinite\n\n|\nx";
        let found: Vec<String> = partitions(text)
            .iter()
            .map(|p| format!("{} {} {} {}", p.name, p.is_default, p.is_up, p.time_limit))
            .collect();
        assert_eq!(
            found,
            [
                "debug true true 1:00:00",
                "long false true 7-00:00:00",
                "old false false infinite"
            ]
        );
    }

    #[test]
    fn accounts_are_read_with_the_default_one() {
        assert_eq!(accounts(""), (None, Vec::new()));
        let text = "anna|imaging|teaching\nanna|imaging|imaging\nanna|imaging|imaging\n";
        let expected = vec!["imaging".to_owned(), "teaching".to_owned()];
        assert_eq!(accounts(text), (Some("imaging".to_owned()), expected));
        assert_eq!(accounts("root||\n"), (None, Vec::new()));
    }
}
