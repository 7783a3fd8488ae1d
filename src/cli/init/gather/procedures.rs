//! The apps of the catalogue for a site.

use std::path::Path;

use super::Gatherer;
use crate::cli::error::Result;
use crate::cli::init::ask::{Asker, picked};
use crate::cli::init::report_existing;
use crate::model::bids::SessionSource;
use crate::model::config::Config;
use crate::setup::catalogue::{App, DESCRIPTION, apps};
use crate::setup::init::choose;
use crate::setup::init::existing::Existing;
use crate::setup::init::survey::{self, Data};
use crate::setup::place;

impl Gatherer<'_> {
    pub(super) fn procedures(
        &mut self,
        sessions: &SessionSource,
        data: &Data,
        [bids_root, derivatives_root]: [&Path; 2],
    ) -> Result<Vec<App>> {
        let config = Config {
            bids_root: bids_root.to_owned(),
            derivatives_root: derivatives_root.to_owned(),
            ..survey::defaults()?
        };
        let existing = Existing::find(&config, &data.cohort, None);
        report_existing(&existing, self.printer);
        let catalogue = existing.catalogue();
        let converts = *sessions != SessionSource::Bids;
        let mut fitting: Vec<&App> = Vec::new();
        let mut unfit: Vec<(&str, String)> = Vec::new();
        // Without DICOM files, apps that need them are not offered.
        for app in catalogue
            .iter()
            .filter(|app| converts || !app.reads_dicom())
        {
            match data.obstacle(app) {
                None => fitting.push(app),
                Some(why) => unfit.push((app.name, why)),
            }
        }
        let proposed = existing.found.iter().map(|found| found.app.name.to_owned());
        let mut proposed: Vec<String> = proposed.collect();
        if choose::choose(&proposed, &catalogue, converts).is_err() {
            self.printer.note(&format!(
                "no procedure is proposed for these results because they need a converter first; to add both: \
                 --procedures heudiconv,{}",
                proposed.join(",")
            ));
            proposed.clear();
        }
        let names = match (&self.args.procedures, self.asker) {
            (Some(names), _) => names.clone(),
            (None, _) if fitting.is_empty() => Vec::new(),
            (None, Some(asker)) => {
                let default = proposed.join(", ");
                self.ask_for_procedures(asker, &default, &fitting, &unfit, converts)?
            }
            (None, None) if !proposed.is_empty() => proposed,
            (None, None) => {
                let names: Vec<&str> = fitting.iter().map(|app| app.name).collect();
                self.printer.note(&format!(
                    "no procedures selected (--procedures): writing a small example; the catalogue offers for this data: {}",
                    names.join(", ")
                ));
                Vec::new()
            }
        };
        let choice = choose::choose(&names, &catalogue, converts)?;
        for (name, because) in &choice.added {
            let note = format!("adding {name}, which {because} needs");
            self.printer.note(&note);
        }
        let is_chosen = |name: &str| choice.apps.iter().any(|app| app.name == name);
        for (name, why) in unfit.iter().filter(|(name, _)| is_chosen(name)) {
            let text = format!("{name} has no input: {why}");
            self.printer.warning(&text);
        }
        Ok(choice.apps)
    }

    fn ask_for_procedures(
        &mut self,
        asker: &Asker,
        default: &str,
        fitting: &[&App],
        unfit: &[(&str, String)],
        converts: bool,
    ) -> Result<Vec<String>> {
        let choices = fitting
            .iter()
            .map(|app| format!("{:<16} {}", app.name, app.about));
        self.menu("Procedures of the catalogue:", &choices.collect::<Vec<_>>());
        for (name, why) in unfit {
            self.printer.info(&format!("not offered: {name} ({why})"));
        }
        let words: Vec<&str> = fitting.iter().map(|app| app.name).collect();
        let split = |answer: &str| -> Vec<String> {
            let names = answer.split([',', ' ']).filter(|name| !name.is_empty());
            names.map(|name| picked(&words, name).to_owned()).collect()
        };
        let question = "Procedures (numbers or names, comma-separated; empty for a small example)";
        let answer = asker.text(
            question,
            Some(default).filter(|default| !default.is_empty()),
            |answer| choose::choose(&split(answer), apps(), converts).map(drop),
        )?;
        Ok(split(&answer))
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
        let Some(app) = apps.iter().find(|app| app.needs_description()) else {
            return Ok(false);
        };
        if *sessions != SessionSource::Bids || place::is_there(&file) {
            return Ok(false);
        }
        let name = app.name;
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
}
