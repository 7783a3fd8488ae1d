//! Which apps of the catalogue a site gets.

use super::{Gatherer, told};
use crate::catalogue::App;
use crate::cli::error::Failure;
use crate::init::look::Data;
use crate::init::{Sessions, choose, entry, fit};

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
                for app in &fitting {
                    self.printer
                        .talk(&format!("  {:<16} {}", app.name, app.about));
                }
                for (app, why) in &unfit {
                    self.printer
                        .talk(&format!("left out: {} ({why})", app.name));
                }
                let apps = self.apps;
                let answer = asker.text(
                    "Procedures, with commas between; nothing: a small example",
                    None,
                    |answer| {
                        choose::choose(&split(answer), apps, converts)
                            .map(drop)
                            .map_err(told)
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
}

fn split(answer: &str) -> Vec<String> {
    answer
        .split([',', ' '])
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
