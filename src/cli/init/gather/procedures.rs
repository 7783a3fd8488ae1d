//! Which apps of the catalogue a site gets.

use std::path::Path;

use super::{Gatherer, told};
use crate::cli::error::Failure;
use crate::cli::init::ask::{Rejected, picked};
use crate::cli::init::is_there;
use crate::setup::catalogue::{App, DESCRIPTION};
use crate::setup::init::look::Data;
use crate::setup::init::{InitError, Sessions, choose, entry, fit, look};

impl Gatherer<'_> {
    pub(super) fn procedures(
        &mut self,
        sessions: &Sessions,
        data: &Data,
    ) -> Result<Vec<App>, Failure> {
        let converts = *sessions != Sessions::Bids;
        let mut fitting: Vec<&App> = Vec::new();
        let mut unfit: Vec<(&App, String)> = Vec::new();
        for app in self.apps {
            // Without DICOM files, what works on them is no choice at all.
            if !converts && entry::facts(app)?.reads_dicom {
                continue;
            }
            match fit::obstacle(app, data) {
                None => fitting.push(app),
                Some(why) => unfit.push((app, why)),
            }
        }
        let names = match (&self.args.procedures, self.asker) {
            (Some(names), _) => names.clone(),
            (None, Some(asker)) if !fitting.is_empty() => {
                self.printer.talk("Procedures of the catalogue:");
                for (number, app) in (1..).zip(&fitting) {
                    self.printer
                        .talk(&format!("  {number:>2}  {:<16} {}", app.name, app.about));
                }
                for (app, why) in &unfit {
                    self.printer
                        .talk(&format!("left out: {} ({why})", app.name));
                }
                let apps = self.apps;
                let words: Vec<&str> = fitting.iter().map(|app| app.name).collect();
                let split = |answer: &str| -> Vec<String> {
                    let names = answer.split([',', ' ']).filter(|name| !name.is_empty());
                    names.map(|name| picked(&words, name).to_owned()).collect()
                };
                let answer = asker.text(
                    "Procedures (numbers or names, comma-separated; empty for a small example)",
                    None,
                    |answer| {
                        let names = split(answer);
                        choose::choose(&names, apps, converts)
                            .map(drop)
                            .map_err(|error| Rejected {
                                instead: corrected(&names, &error),
                                ..told(error)
                            })
                    },
                )?;
                split(&answer)
            }
            (None, None) if !fitting.is_empty() => {
                let names: Vec<&str> = fitting.iter().map(|app| app.name).collect();
                self.printer.note(&format!(
                    "no procedures are named, so there is a small example; the catalogue has for this data: {} \
                     (--procedures)",
                    names.join(", ")
                ));
                Vec::new()
            }
            (None, _) => Vec::new(),
        };
        let choice = choose::choose(&names, self.apps, converts)?;
        for (name, because) in &choice.added {
            self.printer
                .note(&format!("{name} is taken, too: {because} needs it"));
        }
        for (app, why) in &unfit {
            if choice.apps.iter().any(|chosen| chosen.name == app.name) {
                self.printer
                    .warning(&format!("{} has nothing to work on: {why}", app.name));
            }
        }
        Ok(choice.apps)
    }

    /// Decides whether to write the description of a dataset that arrives without one. Converters of the catalogue write
    /// it themselves.
    pub(super) fn describes(
        &mut self,
        sessions: &Sessions,
        bids_root: &Path,
        apps: &[App],
    ) -> Result<bool, Failure> {
        let file = bids_root.join(DESCRIPTION);
        let Some(app) = apps.iter().find(|app| app.needs_description()) else {
            return Ok(false);
        };
        if *sessions != Sessions::Bids || is_there(&file) {
            return Ok(false);
        }
        if !look::is_writable(bids_root) {
            self.printer.warning(&format!(
                "{} does not exist and cannot be written by this user, and {} needs it",
                file.display(),
                app.name
            ));
            return Ok(false);
        }
        match self.asker {
            Some(asker) => asker.agrees(&format!("{} needs a {DESCRIPTION}: write one?", app.name)),
            None => Ok(true),
        }
    }
}

/// The names with the one that is unknown replaced by the nearest.
fn corrected(names: &[String], error: &InitError) -> Option<String> {
    let InitError::UnknownProcedure { name, near, .. } = error else {
        return None;
    };
    let near = near.first()?;
    let names = names.iter();
    let names: Vec<&str> = names
        .map(|known| if known == name { near } else { known }.as_str())
        .collect();
    Some(names.join(", "))
}
