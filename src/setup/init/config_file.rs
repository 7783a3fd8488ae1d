//! The text of the configuration: what the site set, with a word about it, and the most useful other keys. Pure.

use std::fmt::{self, Write as _};
use std::path::Path;

use super::error::InitError;
use super::{Answers, Jobs, SCRIPTS, Sessions, schema, yaml};

/// Writes the whole file.
pub(super) fn text(answers: &Answers, dir: &Path, entries: &[String]) -> Result<String, InitError> {
    let mut file = File {
        out: String::new(),
        dir,
    };
    file.line(format_args!(
        "# yaml-language-server: $schema={}",
        schema::FILE
    ));
    file.out.push_str(
        "#\n\
         # The study's configuration, made by `snbb-scheduler init`. It is yours to edit: each key is explained where it\n\
         # stands, a line such as `#max_in_flight: 200` is a choice that you have, and `snbb-scheduler man config` has all keys.\n\
         # Paths may be relative to this file. After a change: snbb-scheduler --config FILE check\n",
    );
    file.section("Where things are");
    places(&mut file, answers)?;
    file.section("Which sessions there are");
    sessions(&mut file, answers)?;
    file.section("What runs the jobs");
    jobs(&mut file, answers)?;
    file.section("Limits, and what happens when jobs fail");
    file.out.push_str(LIMITS);
    file.section("Who is told");
    file.out.push_str(TOLD);
    file.section("The pipeline, in order of priority");
    file.out.push_str(
        "# Scripts are looked for here first. They are copies for this study: look through each before the first run, above\n\
         # all for the paths of containers and licences.\n",
    );
    file.line(format_args!("script_dir: {SCRIPTS}"));
    file.out.push_str("procedures:\n");
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            file.out.push('\n');
        }
        file.out.push_str(entry);
    }
    Ok(file.out)
}

const LIMITS: &str = "\
# How many tasks may be pending or running at a time, and how many one call of `run` may submit.
#max_in_flight: 200
#max_submit_per_run: 100
# So many jobs of a procedure must succeed before more of it are submitted: a broken script costs three jobs then.
#warmup: 3
# So many failures in a row pause a procedure until `snbb-scheduler resume`.
#pause_after_failures: 10
# How long the outputs of a job that ended well may take to appear, before it counts as failed (no_output). Until then the
# task is still running. 0s: they must be there when the job has ended.
#output_grace: 10m
# Failures that are tried again without a person.
#retry: { max_attempts: 3, on: { out_of_memory: { mem_factor: 1.5 }, timeout: { time_factor: 2 }, node_fail: {} } }
# Subjects and sessions that are left alone.
#exclude: [sub-0013, sub-0002/ses-01]
";

const TOLD: &str = "\
# One mail when something changed for the worse (by smtp_host, which is localhost if it is not set).
#notify: { email: yes }
#audit: { email_recipients: [imaging@example.org] }
";

/// Is the file as far as it is written.
struct File<'a> {
    out: String,
    dir: &'a Path,
}

impl File<'_> {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.out, "{line}");
    }

    fn section(&mut self, title: &str) {
        const WIDTH: usize = 100;
        let rule = "-".repeat(WIDTH.saturating_sub(title.len() + 7));
        self.line(format_args!("\n# --- {title} {rule}\n"));
    }

    fn path(&mut self, key: &'static str, path: &Path) -> Result<(), InitError> {
        let value = yaml::path(key, path, self.dir)?;
        self.line(format_args!("{key}: {value}"));
        Ok(())
    }

    fn text(&mut self, key: &str, value: &str) {
        self.line(format_args!("{key}: {}", yaml::scalar(value)));
    }

    fn note(&mut self, note: &str) {
        self.line(format_args!("# {note}"));
    }
}

fn places(file: &mut File<'_>, answers: &Answers) -> Result<(), InitError> {
    let dicom = match &answers.sessions {
        Sessions::Dicom { root, .. } => Some(root),
        Sessions::List { dicom_root, .. } => dicom_root.as_ref(),
        Sessions::Bids => None,
    };
    if let Some(root) = dicom {
        file.note("Where DICOM files arrive. Nothing is ever written there.");
        file.path("dicom_root", root)?;
    }
    file.note("The BIDS dataset. Procedures whose output_dir is \"\" write here.");
    file.path("bids_root", &answers.bids_root)?;
    file.note("All other procedures write to <derivatives_root>/<output_dir>/<subject>/<session>.");
    file.path("derivatives_root", &answers.derivatives_root)?;
    file.note("What is in flight, done and failed: one row per task, for pandas too. Choose its place once: to the program,");
    file.note("a study whose state file was moved is a new one.");
    file.path("state_file", &answers.state_file)?;
    file.note("Jobs write <procedure>/<job name>_<job id>.out and .err below it.");
    file.path("slurm_log_dir", &answers.log_dir)?;
    file.note("Tells two studies of one user apart in Slurm's queue. None: made from the state file's path.");
    match &answers.project {
        Some(project) => file.text("project", project),
        None => file.line(format_args!("#project: study1")),
    }
    Ok(())
}

fn sessions(file: &mut File<'_>, answers: &Answers) -> Result<(), InitError> {
    match &answers.sessions {
        Sessions::Dicom { sessionless, .. } => {
            file.note("dicom: every sub-*/ses-* below dicom_root. bids: those below bids_root, for data that arrives converted.");
            file.text("discover", "dicom");
            file.note("yes: a subject without ses-* is one session without label.");
            file.line(format_args!(
                "sessionless: {}",
                if *sessionless { "yes" } else { "no" }
            ));
            file.note("A session waits while its newest DICOM file is younger than this: it may still be arriving.");
            file.line(format_args!("#dicom_settle: 30m"));
        }
        Sessions::Bids => {
            file.note("bids: every sub-*/ses-*, or sub-* alone, below bids_root, since the data arrives converted.");
            file.note("dicom: those below dicom_root.");
            file.text("discover", "bids");
        }
        Sessions::List {
            file: list,
            subject_col,
            session_col,
            ..
        } => {
            file.note("A CSV file with one line per session: these two columns, and dicom_path.");
            file.path("sessions_file", list)?;
            file.text("subject_col", subject_col);
            file.text("session_col", session_col);
            file.note("A session waits while its newest DICOM file is younger than this: it may still be arriving.");
            file.line(format_args!("#dicom_settle: 30m"));
        }
    }
    Ok(())
}

fn jobs(file: &mut File<'_>, answers: &Answers) -> Result<(), InitError> {
    let Jobs::Slurm {
        partition,
        account,
        bin_dir,
        accounting,
    } = &answers.jobs
    else {
        file.note("local: child processes on this machine, so many at a time. slurm: a cluster; set the two keys below then.");
        file.text("executor", "local");
        file.line(format_args!("local_jobs: 1"));
        file.line(format_args!("#slurm_partition: cpu"));
        file.line(format_args!("#slurm_account: imaging"));
        resources(file, answers);
        return Ok(());
    };
    file.note("slurm, or local: child processes on this machine.");
    file.text("executor", "slurm");
    for (key, value, sbatch) in [
        ("slurm_partition", partition, "partition"),
        ("slurm_account", account, "account"),
    ] {
        match value {
            Some(value) => {
                file.note(&format!(
                    "For procedures that say no {sbatch} of their own."
                ));
                file.text(key, value);
            }
            None => {
                file.note(&format!("Empty: your default {sbatch} of Slurm."));
                file.line(format_args!("{key}:"));
            }
        }
    }
    match bin_dir {
        Some(dir) => {
            file.note(
                "Where sbatch, squeue, sacct and scancel are: cron does not look there by itself.",
            );
            file.path("slurm_bin_dir", dir)?;
        }
        None => file.line(format_args!("#slurm_bin_dir: /opt/slurm/bin")),
    }
    if !accounting {
        file.note("sacct knows of no jobs here: the queue and the markers decide alone.");
        file.line(format_args!("accounting: off"));
    }
    resources(file, answers);
    Ok(())
}

fn resources(file: &mut File<'_>, answers: &Answers) {
    file.note("For procedures that say nothing of their own.");
    match &answers.mem {
        Some(mem) => file.text("slurm_mem", &mem.to_string()),
        None => file.line(format_args!("#slurm_mem: 8G")),
    }
    match answers.cpus {
        Some(cpus) => file.line(format_args!("slurm_cpus_per_task: {cpus}")),
        None => file.line(format_args!("#slurm_cpus_per_task: 4")),
    }
}
