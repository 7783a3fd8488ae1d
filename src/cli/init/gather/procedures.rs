//! The apps of the catalogue for a site.

use std::path::Path;

use super::Gatherer;
use crate::cli::error::Result;
use crate::cli::init::ask::picked;
use crate::cli::init::report_existing;
use crate::model::bids::{Session, SessionSource};
use crate::model::config::Config;
use crate::setup::catalogue::{App, DESCRIPTION, apps};
use crate::setup::init::choose;
use crate::setup::init::existing::Existing;
use crate::setup::init::survey;
use crate::setup::place;

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
            ..survey::defaults()?
        };
        let existing = Existing::find(&config, cohort, None);
        report_existing(&existing, self.printer);
        let catalogue = existing.catalogue();
        let converts = *sessions != SessionSource::Bids;
        // Without DICOM files, apps that need them are not offered.
        let fitting = catalogue
            .iter()
            .filter(|app| converts || !app.reads_dicom());
        let fitting: Vec<&App> = fitting.collect();
        let proposed = existing.found.iter().map(|found| found.app.name.to_owned());
        let mut proposed: Vec<String> = proposed.collect();
        // They may need a converter first.
        if choose::choose(&proposed, &catalogue, converts).is_err() {
            proposed.clear();
        }
        let names = match (&self.args.procedures, self.asker) {
            (Some(names), _) => names.clone(),
            (None, Some(asker)) => {
                let choices = fitting
                    .iter()
                    .map(|app| format!("{:<16} {}", app.name, app.about));
                self.menu("Procedures of the catalogue:", &choices.collect::<Vec<_>>());
                let words: Vec<&str> = fitting.iter().map(|app| app.name).collect();
                let split = |answer: &str| -> Vec<String> {
                    let names = answer.split([',', ' ']).filter(|name| !name.is_empty());
                    names.map(|name| picked(&words, name).to_owned()).collect()
                };
                let answer = asker.text(
                    "Procedures (numbers or names, comma-separated; empty for a small example)",
                    Some(&*proposed.join(", ")).filter(|default| !default.is_empty()),
                    |answer| choose::choose(&split(answer), apps(), converts).map(drop),
                )?;
                split(&answer)
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
