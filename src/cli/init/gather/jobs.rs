//! What runs the jobs: Slurm's partitions and accounts as choices, or this machine.

use super::{Gatherer, told};
use crate::base::sys;
use crate::cli::args::ExecutorWord;
use crate::cli::error::Failure;
use crate::cli::init::ask::{Rejected, picked};
use crate::executor::slurm::offers;
use crate::executor::slurm::offers::Offers;
use crate::model::bids::near;
use crate::setup::init::{InitError, Jobs};

/// Where cron looks for commands by itself.
const CRON_PATH: [&str; 2] = ["/usr/bin", "/bin"];

/// What is typed for "Slurm's own default".
const NONE: &str = "none";

impl Gatherer<'_> {
    pub(super) fn jobs(&mut self) -> Result<Jobs, Failure> {
        let args = self.args;
        for (option, name) in [
            ("--partition", &args.partition),
            ("--account", &args.account),
        ] {
            if let Some(name) = name {
                word(option, name)?;
            }
        }
        if args.executor == Some(ExecutorWord::Local) {
            return Ok(Jobs::Local);
        }
        let offers = offers::ask(std::env::vars_os().collect(), &sys::user_name());
        let is_wanted = [&args.partition, &args.account].iter().any(|n| n.is_some());
        if !self.wants_slurm(&offers, is_wanted)? {
            return Ok(Jobs::Local);
        }
        for problem in &offers.problems {
            self.printer
                .warning(&format!("{problem}; partition and account are not checked"));
        }
        let partition = self.partition(&offers)?;
        let account = self.account(&offers)?;
        let bin_dir = offers
            .bin_dir
            .filter(|dir| !CRON_PATH.iter().any(|known| dir.as_os_str() == *known));
        Ok(Jobs::Slurm {
            partition,
            account,
            bin_dir,
            accounting: !offers.has_no_accounting,
        })
    }

    /// Decides between the two executors. `is_wanted`: options name something of Slurm's.
    fn wants_slurm(&mut self, offers: &Offers, is_wanted: bool) -> Result<bool, Failure> {
        let is_there = offers.bin_dir.is_some() && !offers.has_no_cluster;
        if self.args.executor.is_some() || is_wanted {
            if offers.bin_dir.is_none() {
                self.printer.warning(
                    "sbatch is not on PATH: load Slurm's module, or set slurm_bin_dir before the first run; \
                     without a cluster: --executor local",
                );
            }
            return Ok(true);
        }
        if let Some(asker) = self.asker {
            let default = if is_there { "slurm" } else { "local" };
            let why_not = match (is_there, &offers.bin_dir) {
                (true, _) => "",
                (false, None) => " (there is no sbatch here)",
                (false, Some(_)) => " (Slurm's commands are here, but no cluster is configured)",
            };
            self.printer.talk("What runs the jobs?");
            self.printer
                .talk(&format!("  1  slurm  a cluster{why_not}"));
            self.printer
                .talk("  2  local  child processes on this machine");
            let word = asker.one_of("Executor", &["slurm", "local"], default)?;
            return Ok(word == "slurm");
        }
        if !is_there {
            let why = match &offers.bin_dir {
                None => "there is no sbatch on PATH",
                Some(_) => "Slurm's commands know no cluster",
            };
            self.printer.note(&format!(
                "{why}, so jobs run on this machine (executor: local); for a cluster: --executor slurm"
            ));
        }
        Ok(is_there)
    }

    fn partition(&mut self, offers: &Offers) -> Result<Option<String>, Failure> {
        let names: Vec<&str> = offers.partitions.iter().map(|p| p.name.as_str()).collect();
        if let Some(given) = &self.args.partition {
            for name in given.split(',').filter(|name| !name.is_empty()) {
                if let Some(unknown) = unknown("partition", name, &names) {
                    self.printer.warning(&unknown);
                }
            }
            return Ok(Some(given.clone()).filter(|name| !name.is_empty()));
        }
        let default = match offers.partitions.iter().find(|p| p.is_default) {
            Some(partition) => Some(partition.name.as_str()),
            None if names.len() == 1 => names.first().copied(),
            None => None,
        };
        let Some(asker) = self.asker else {
            return match default {
                None if !names.is_empty() => {
                    let names = names.iter().map(|name| (*name).to_owned()).collect();
                    Err(InitError::NoDefaultPartition(names).into())
                }
                default => Ok(default.map(str::to_owned)),
            };
        };
        if !names.is_empty() {
            self.printer.talk("Partitions of Slurm:");
            for (number, partition) in (1..).zip(&offers.partitions) {
                let state = if partition.is_up {
                    ""
                } else {
                    ", takes no jobs now"
                };
                self.printer.talk(&format!(
                    "  {number:>2}  {:<16} up to {}{state}",
                    partition.name, partition.time_limit
                ));
            }
        }
        let answer = asker.text("Partition", Some(default.unwrap_or(NONE)), |answer| {
            let answer = picked(&names, answer);
            word("--partition", answer).map_err(told)?;
            if answer == NONE && default.is_none() && !names.is_empty() {
                return Err("Slurm has no default one: name one".to_owned().into());
            }
            let mut each = answer.split(',').filter(|name| *name != NONE);
            each.find_map(|name| rejected("partition", name, &names))
                .map_or(Ok(()), Err)
        })?;
        Ok(Some(picked(&names, &answer).to_owned())
            .filter(|answer| answer != NONE && !answer.is_empty()))
    }

    fn account(&mut self, offers: &Offers) -> Result<Option<String>, Failure> {
        let names: Vec<&str> = offers.accounts.iter().map(String::as_str).collect();
        if let Some(given) = &self.args.account {
            if let Some(unknown) = unknown("account of yours", given, &names)
                && !given.is_empty()
            {
                self.printer.warning(&unknown);
            }
            return Ok(Some(given.clone()).filter(|name| !name.is_empty()));
        }
        let only = names.first().copied().filter(|_| names.len() == 1);
        let default = offers.default_account.as_deref().or(only);
        let Some(asker) = self.asker else {
            return Ok(default.map(str::to_owned));
        };
        if !names.is_empty() {
            self.printer.talk("Your accounts in Slurm:");
            for (number, name) in (1..).zip(&names) {
                self.printer.talk(&format!("  {number:>2}  {name}"));
            }
        }
        let answer = asker.text("Account", Some(default.unwrap_or(NONE)), |answer| {
            let answer = picked(&names, answer);
            if answer == NONE {
                return Ok(());
            }
            word("--account", answer).map_err(told)?;
            rejected("account of yours", answer, &names).map_or(Ok(()), Err)
        })?;
        Ok(Some(picked(&names, &answer).to_owned())
            .filter(|answer| answer != NONE && !answer.is_empty()))
    }
}

/// Slurm's names have no blanks.
fn word(option: &'static str, name: &str) -> Result<(), InitError> {
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(InitError::Value {
            option,
            value: name.to_owned(),
            why: "holds a blank".to_owned(),
            hint: "give a name as sinfo and sacctmgr show it".to_owned(),
        });
    }
    Ok(())
}

/// Rejects a name that Slurm does not know.
fn rejected(what: &str, name: &str, known: &[&str]) -> Option<Rejected> {
    let why = unknown(what, name, known)?;
    let instead = near::nearest(name, known.iter().copied()).map(str::to_owned);
    Some(Rejected { why, instead })
}

/// Says that Slurm knows no such name, if it named any.
fn unknown(what: &str, name: &str, known: &[&str]) -> Option<String> {
    if known.is_empty() || known.contains(&name) {
        return None;
    }
    let way_out = match near::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are: {}", known.join(", ")),
    };
    Some(format!(
        "Slurm knows no {what} '{}' ({way_out})",
        name.escape_debug()
    ))
}
