//! From names to apps of the catalogue, with all that they need. Pure.

use super::entry::facts;
use super::error::InitError;
use crate::model::bids::near;
use crate::model::bids::near::fold;
use crate::setup::catalogue::App;

/// Holds what was chosen, each after those that it needs.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub apps: Vec<App>,
    /// What was taken without being named, and for which one.
    pub added: Vec<(&'static str, &'static str)>,
}

/// Chooses apps. `converts`: there are DICOM files to make a dataset of.
///
/// # Errors
/// An unknown name; several apps of which one is needed, and none of them is named; two converters.
pub fn choose(names: &[String], catalogue: &[App], converts: bool) -> Result<Choice, InitError> {
    let mut named: Vec<&App> = Vec::new();
    for name in names
        .iter()
        .map(|name| name.trim())
        .filter(|name| !name.is_empty())
    {
        let app = find(name, catalogue)?;
        if !named.iter().any(|known| known.name == app.name) {
            named.push(app);
        }
    }
    let mut added = Vec::new();
    let mut at = 0;
    while let Some(app) = named.get(at).copied() {
        at += 1;
        for group in app.needs {
            if named.iter().any(|known| group.contains(&known.name)) {
                continue;
            }
            let options: Vec<&App> = catalogue
                .iter()
                .filter(|other| group.contains(&other.name))
                .collect();
            if !converts && converters(&options)? {
                continue;
            }
            match options.as_slice() {
                [only] => {
                    added.push((only.name, app.name));
                    named.push(only);
                }
                _ => {
                    return Err(InitError::Needs {
                        name: app.name.to_owned(),
                        one_of: group.iter().map(|name| (*name).to_owned()).collect(),
                    });
                }
            }
        }
    }
    check_converters(&named, converts)?;
    let mut choice = Choice {
        apps: Vec::new(),
        added,
    };
    let in_order = catalogue
        .iter()
        .filter(|app| named.iter().any(|known| known.name == app.name));
    for app in in_order {
        put(app, &named, &mut choice.apps);
    }
    Ok(choice)
}

/// Finds an app by its name, whatever its case and dashes.
fn find<'a>(name: &str, catalogue: &'a [App]) -> Result<&'a App, InitError> {
    let folded = fold(name);
    if let Some(app) = catalogue.iter().find(|app| fold(app.name) == folded) {
        return Ok(app);
    }
    let near = near::candidates(name, catalogue.iter().map(|app| app.name));
    Err(InitError::UnknownProcedure {
        name: name.to_owned(),
        near: near.take(3).map(str::to_owned).collect(),
        all: catalogue.iter().map(|app| app.name.to_owned()).collect(),
    })
}

fn converters(apps: &[&App]) -> Result<bool, InitError> {
    let mut all = !apps.is_empty();
    for app in apps {
        all &= facts(app)?.is_converter;
    }
    Ok(all)
}

fn check_converters(named: &[&App], converts: bool) -> Result<(), InitError> {
    let mut found: Option<&App> = None;
    for app in named {
        let facts = facts(app)?;
        if facts.reads_dicom && !converts {
            return Err(InitError::Value {
                option: "--procedures",
                value: app.name.to_owned(),
                why: "works on DICOM files, and none are given".to_owned(),
                hint: "say where DICOM files are (--dicom-root), or leave it out".to_owned(),
            });
        }
        if facts.is_converter
            && let Some(first) = found.replace(app)
        {
            return Err(InitError::TwoConverters {
                first: first.name.to_owned(),
                second: app.name.to_owned(),
            });
        }
    }
    Ok(())
}

/// Puts an app behind those that it needs.
fn put(app: &App, named: &[&App], order: &mut Vec<App>) {
    if order.iter().any(|known| known.name == app.name) || order.len() > named.len() {
        return;
    }
    for before in named {
        let is_needed = app.needs.iter().any(|group| group.contains(&before.name));
        if is_needed && before.name != app.name {
            put(before, named, order);
        }
    }
    if !order.iter().any(|known| known.name == app.name) {
        order.push(*app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::init::tests::catalogue;

    fn chosen(names: &str, converts: bool) -> String {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        match choose(&names, &catalogue(), converts) {
            Ok(choice) => {
                let apps: Vec<&str> = choice.apps.iter().map(|app| app.name).collect();
                let added: Vec<String> = choice
                    .added
                    .iter()
                    .map(|(name, because)| format!(" +{name} for {because}"))
                    .collect();
                format!("{}{}", apps.join(","), added.concat())
            }
            Err(error) => format!("{error} ({})", error.hint()),
        }
    }

    #[test]
    fn what_is_needed_comes_along_and_comes_first() {
        assert_eq!(chosen("", true), "");
        assert_eq!(chosen("prep,toA", true), "toA,prep");
        assert_eq!(chosen("After, PREP ,to-b", true), "toB,prep,after");
        assert_eq!(chosen("after", false), "prep,after +prep for after");
        assert_eq!(chosen("after,toA", true), "toA,prep,after +prep for after");
    }

    #[test]
    fn what_cannot_be_is_told_with_a_way_out() {
        let told = chosen("prep", true);
        assert!(
            told.contains("prep needs one of toA, toB before it (add one"),
            "{told}"
        );
        let told = chosen("toA,toB", true);
        assert!(told.contains("both convert"), "{told}");
        let told = chosen("toA", false);
        assert!(told.contains("none are given"), "{told}");
        let told = chosen("pret", false);
        assert!(
            told.contains("no procedure 'pret' in the catalogue (did you mean prep?"),
            "{told}"
        );
        let told = chosen("zzzzzzz", false);
        assert!(
            told.contains("there are: toA, toB, after, prep, quality"),
            "{told}"
        );
    }
}
