//! Executor of the jobs: this machine, or Slurm with its partitions and accounts as choices.

use super::Gatherer;
use crate::base::sys;
use crate::cli::args::ExecutorWord;
use crate::cli::error::Result;
use crate::cli::init::ask::picked;
use crate::executor::slurm::inspect::{Offers, ask_offers};
use crate::model::bids::suggest;
use crate::setup::init::{InitError, Jobs};
use crate::setup::place;

/// Answer for "Slurm's own default".
const NONE: &str = "none";

/// A question for one of several names in Slurm.
struct NameQuestion<'a> {
    question: &'static str,
    /// Kind of the name, such as `partition`.
    what: &'static str,
    given: &'a Option<String>,
    /// All names in Slurm; empty if unknown.
    known: Vec<&'a str>,
    default: Option<&'a str>,
    title: &'static str,
    choices: Vec<String>,
}

impl Gatherer<'_> {
    pub(super) fn jobs(&mut self) -> Result<Jobs> {
        if self.args.executor == Some(ExecutorWord::Local) {
            return Ok(Jobs::Local);
        }
        let offers = ask_offers(std::env::vars_os().collect(), &sys::user_name());
        if !self.wants_slurm(&offers)? {
            return Ok(Jobs::Local);
        }
        for problem in &offers.problems {
            let text = format!("{problem}; partition and account are not checked");
            self.printer.warning(&text);
        }
        Ok(Jobs::Slurm {
            partition: self.partition(&offers)?,
            account: self.account(&offers)?,
            accounting: !offers.has_no_accounting,
            bin_dir: offers.bin_dir.filter(|dir| !place::is_on_cron_path(dir)),
        })
    }

    /// Chooses between the two executors.
    fn wants_slurm(&mut self, offers: &Offers) -> Result<bool> {
        let args = self.args;
        let has_commands = offers.bin_dir.is_some();
        let is_there = has_commands && !offers.has_no_cluster;
        if args.executor.is_some() || args.partition.is_some() || args.account.is_some() {
            if !has_commands {
                self.printer.warning(
                    "sbatch is not on PATH: load Slurm's module, or set `slurm_bin_dir` before the first run; without a cluster, use \
                     --executor local",
                );
            }
            return Ok(true);
        }
        let why_not = match has_commands {
            false => "sbatch is not on PATH",
            true => "Slurm's commands find no cluster",
        };
        if let Some(asker) = self.asker {
            let (default, but) = match is_there {
                true => ("slurm", String::new()),
                false => ("local", format!(" ({why_not})")),
            };
            let choices = [
                format!("slurm  a cluster{but}"),
                "local  child processes on this machine".to_owned(),
            ];
            self.menu("How should jobs run?", &choices);
            let word = asker.one_of("Executor", &["slurm", "local"], default)?;
            return Ok(word == "slurm");
        }
        if !is_there {
            self.printer.note(&format!(
                "{why_not}, so jobs will run on this machine (executor: local); for a cluster, use --executor slurm"
            ));
        }
        Ok(is_there)
    }

    fn partition(&mut self, offers: &Offers) -> Result<Option<String>> {
        let names: Vec<&str> = offers.partitions.iter().map(|p| p.name.as_str()).collect();
        let only = names.first().copied().filter(|_| names.len() == 1);
        let default = offers.partitions.iter().find(|p| p.is_default);
        let default = default.map(|p| p.name.as_str()).or(only);
        let choices = offers.partitions.iter().map(|partition| {
            let state = if partition.is_up {
                ""
            } else {
                ", accepts no jobs now"
            };
            format!(
                "{:<16} up to {}{state}",
                partition.name, partition.time_limit
            )
        });
        let question = NameQuestion {
            question: "Partition",
            what: "partition",
            given: &self.args.partition,
            choices: choices.collect(),
            known: names,
            default,
            title: "Partitions of Slurm:",
        };
        self.name(&question)
    }

    fn account(&mut self, offers: &Offers) -> Result<Option<String>> {
        let names = &offers.accounts;
        let only = names.first().filter(|_| names.len() == 1);
        let question = NameQuestion {
            question: "Account",
            what: "account of yours",
            given: &self.args.account,
            choices: names.clone(),
            known: names.iter().map(String::as_str).collect(),
            default: offers.default_account.as_ref().or(only).map(String::as_str),
            title: "Your accounts in Slurm:",
        };
        self.name(&question)
    }

    /// A name from the option, else from the user, else the default; empty and `none` mean Slurm's own.
    fn name(&mut self, asked: &NameQuestion<'_>) -> Result<Option<String>> {
        let own = |name: &str| Some(name.to_owned()).filter(|name| !["", NONE].contains(&&**name));
        if let Some(given) = asked.given {
            if let Err(unknown) = check(asked, given) {
                self.printer.warning(&unknown.in_dialogue());
            }
            return Ok(own(given));
        }
        let Some(asker) = self.asker else {
            return Ok(asked.default.and_then(own));
        };
        self.menu(asked.title, &asked.choices);
        let default = asked.default.unwrap_or(NONE);
        let answer = asker.text(asked.question, Some(default), |answer| {
            check(asked, picked(&asked.known, answer))
        })?;
        Ok(own(picked(&asked.known, &answer)))
    }
}

/// Rejects names that Slurm does not know, if it lists any.
fn check(asked: &NameQuestion<'_>, names: &str) -> Result<(), InitError> {
    let known = &asked.known;
    let is_unknown = |name: &&str| !["", NONE].contains(name) && !known.contains(name);
    let unknown = names.split(',').find(is_unknown);
    let Some(name) = unknown.filter(|_| !known.is_empty()) else {
        return Ok(());
    };
    let hint = match suggest::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("available: {}", known.join(", ")),
    };
    let text = format!("Slurm has no {} '{}'", asked.what, name.escape_debug());
    Err(InitError::wrong("", text, hint))
}
