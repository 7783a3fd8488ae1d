//! The choices of `init`: apps of the catalogue, and the executor of the jobs with Slurm's partitions and accounts.

use std::path::Path;

use super::{Gatherer, picked};
use crate::base::text::capital;
use crate::cli::init::report_existing;
use crate::cli::{Config, Result, sys};
use crate::executor::slurm::inspect::{Offers, ask_offers};
use crate::model::bids::{Session, SessionSource, suggest};
use crate::model::job::ExecutorKind;
use crate::setup::catalogue::{App, DESCRIPTION, apps};
use crate::setup::init::existing::Existing;
use crate::setup::init::{self, InitError, Jobs, survey};
use crate::setup::place;

/// Answer for "Slurm's own default".
const NONE: &str = "none";

impl Gatherer<'_> {
    pub(super) fn procedures(
        &mut self,
        sessions: &SessionSource,
        cohort: &[Session],
        [bids_root, derivatives_root]: [&Path; 2],
    ) -> Result<Vec<App>> {
        let config = Config {
            bids_root: bids_root.to_owned(),
            derivatives_root: derivatives_root.to_owned(),
            ..survey::built_in("")?
        };
        let existing = Existing::find(&config, cohort, None);
        report_existing(&existing, self.printer);
        let catalogue = existing.catalogue();
        let converts = *sessions != SessionSource::Bids;
        // Without DICOM files, apps that need them are not offered.
        let fitting: Vec<&App> = catalogue
            .iter()
            .filter(|app| converts || !app.reads_dicom())
            .collect();
        let words: Vec<&str> = fitting.iter().map(|app| app.name).collect();
        let proposed = existing.found.iter().map(|found| found.app.name.to_owned());
        let mut proposed: Vec<String> = proposed.collect();
        // They may need a converter first.
        if init::choose(&proposed, &catalogue, converts).is_err() {
            proposed.clear();
        }
        let names = if let Some(names) = &self.args.procedures {
            names.clone()
        } else if let Some(asker) = self.asker {
            let choices = fitting.iter();
            let choices = choices.map(|app| format!("{:<16} {}", app.name, app.about));
            self.menu("Procedures of the catalogue:", &choices.collect::<Vec<_>>());
            let split = |answer: &str| {
                let names = answer.split([',', ' ']).filter(|name| !name.is_empty());
                let names = names.map(|name| picked(&words, name).to_owned());
                let names: Vec<String> = names.collect();
                init::choose(&names, apps(), converts)?;
                Ok(names)
            };
            asker.text(
                "Procedures (numbers or names, comma-separated; empty for a small example)",
                Some(&*proposed.join(", ")).filter(|default| !default.is_empty()),
                split,
            )?
        } else {
            if proposed.is_empty() {
                self.printer.note(&format!(
                    "no procedures selected (--procedures): writing a small example; the catalogue offers for this data: {}",
                    words.join(", ")
                ));
            }
            proposed
        };
        let choice = init::choose(&names, &catalogue, converts)?;
        for (name, because) in &choice.added {
            let note = format!("adding {name}, which {because} needs");
            self.printer.note(&note);
        }
        Ok(choice.apps)
    }

    /// Decides whether to write the description of a dataset that arrives without one. Converters of the catalogue write
    /// it themselves.
    pub(super) fn describes(
        &mut self,
        sessions: &SessionSource,
        bids_root: &Path,
        apps: &[App],
    ) -> Result<bool> {
        let file = bids_root.join(DESCRIPTION);
        let app = apps.iter().find(|app| app.needs_description());
        let is_wanted = *sessions == SessionSource::Bids && !place::is_there(&file);
        let Some(name) = app.filter(|_| is_wanted).map(|app| app.name) else {
            return Ok(false);
        };
        if !place::is_writable(bids_root) {
            let file = file.display();
            self.printer.warning(&format!(
                "{file} does not exist, {name} needs it, and this user cannot create it"
            ));
            return Ok(false);
        }
        let question = format!("{name} needs a {DESCRIPTION}: write one?");
        self.asker.map_or(Ok(true), |asker| asker.agrees(&question))
    }

    pub(super) fn jobs(&mut self) -> Result<Jobs> {
        let args = self.args;
        if args.executor == Some(ExecutorKind::Local) {
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
        let partitions = &offers.partitions;
        let names: Vec<&str> = partitions.iter().map(|p| p.name.as_str()).collect();
        let default = partitions.iter().find(|p| p.is_default);
        let default = default.map(|p| p.name.as_str());
        let choices = partitions.iter().map(|partition| {
            let state = match partition.is_up {
                true => "",
                false => ", accepts no jobs now",
            };
            let (name, limit) = (&partition.name, &partition.time_limit);
            format!("{name:<16} up to {limit}{state}")
        });
        let choices: Vec<String> = choices.collect();
        let partition = self.name("partition", &args.partition, (&names, &choices), default)?;
        let names: Vec<&str> = offers.accounts.iter().map(String::as_str).collect();
        let default = offers.default_account.as_deref();
        let choices = (names.as_slice(), offers.accounts.as_slice());
        Ok(Jobs::Slurm {
            partition,
            account: self.name("account", &args.account, choices, default)?,
            accounting: !offers.has_no_accounting,
            bin_dir: offers.bin_dir.filter(|dir| !place::is_on_cron_path(dir)),
        })
    }

    /// Chooses between the two executors.
    fn wants_slurm(&mut self, offers: &Offers) -> Result<bool> {
        let args = self.args;
        let problem = match (&offers.bin_dir, offers.has_no_cluster) {
            (None, _) => Some("sbatch is not on PATH"),
            (_, true) => Some("Slurm's commands find no cluster"),
            _ => None,
        };
        if args.executor.is_some() || args.partition.is_some() || args.account.is_some() {
            if offers.bin_dir.is_none() {
                self.printer.warning(
                    "sbatch is not on PATH: load Slurm's module, or set `slurm_bin_dir` before the first run; without a cluster, use \
                     --executor local",
                );
            }
            return Ok(true);
        }
        if let Some(asker) = self.asker {
            let (default, but) = match problem {
                None => ("slurm", String::new()),
                Some(why_not) => ("local", format!(" ({why_not})")),
            };
            let choices = [
                format!("slurm  a cluster{but}"),
                "local  child processes on this machine".to_owned(),
            ];
            self.menu("How should jobs run?", &choices);
            let word = asker.one_of("Executor", &["slurm", "local"], default)?;
            return Ok(word == "slurm");
        }
        if let Some(why_not) = problem {
            self.printer.note(&format!(
                "{why_not}, so jobs will run on this machine (executor: local); for a cluster, use --executor slurm"
            ));
        }
        Ok(problem.is_none())
    }

    /// One of Slurm's names, with a line to choose each: from the option, else from the user, else the default or the only
    /// one. Empty and `none` mean Slurm's own default.
    fn name(
        &mut self,
        what: &str,
        given: &Option<String>,
        (known, choices): (&[&str], &[String]),
        default: Option<&str>,
    ) -> Result<Option<String>> {
        let own = |name: &str| Some(name.to_owned()).filter(|name| !["", NONE].contains(&&**name));
        let check = |names: &str| {
            let is_unknown = |name: &&str| !["", NONE].contains(name) && !known.contains(name);
            let unknown = names.split(',').find(is_unknown);
            let Some(name) = unknown.filter(|_| !known.is_empty()) else {
                return Ok(own(names));
            };
            let hint = match suggest::nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("available: {}", known.join(", ")),
            };
            let text = format!("Slurm has no {what} '{}'", name.escape_debug());
            Err(InitError::wrong("", text, hint))
        };
        if let Some(given) = given {
            if let Err(unknown) = check(given) {
                self.printer.warning(&unknown.in_dialogue());
            }
            return Ok(own(given));
        }
        let only = known.first().copied().filter(|_| known.len() == 1);
        let default = default.or(only);
        let Some(asker) = self.asker else {
            return Ok(default.and_then(own));
        };
        let what = capital(what);
        self.menu(&format!("{what}s of yours in Slurm:"), choices);
        let default = Some(default.unwrap_or(NONE));
        asker.text(&what, default, |answer| check(picked(known, answer)))
    }
}
