//! Resolves names to apps of the catalogue and the apps that these need.

use super::InitError;
use crate::model::bids::suggest;
use crate::model::bids::suggest::fold;
use crate::setup::catalogue::App;

/// The chosen apps, each after those that it needs.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub apps: Vec<App>,
    /// Apps that were added automatically, with the app that needs them.
    pub added: Vec<(&'static str, &'static str)>,
}

/// Chooses apps. `converts` means that there are DICOM files to convert.
///
/// # Errors
/// An unknown name; a choice between several needed apps; two converters.
pub fn choose(names: &[String], catalogue: &[App], converts: bool) -> Result<Choice, InitError> {
    let mut named: Vec<&App> = Vec::new();
    let given = names.iter().map(|name| name.trim());
    for name in given.filter(|name| !name.is_empty()) {
        let app = find(name, catalogue)?;
        if !has(&named, &[app.name]) {
            named.push(app);
        }
    }
    let mut choice = Choice::default();
    let mut at = 0;
    while let Some(app) = named.get(at).copied() {
        at += 1;
        for group in app.needs.iter().filter(|group| !has(&named, group)) {
            let options = catalogue.iter().filter(|other| group.contains(&other.name));
            let options: Vec<&App> = options.collect();
            match options.as_slice() {
                options if !converts && options.iter().all(|app| app.is_converter()) => {}
                [only] => choice.added.push((only.name, app.name)),
                _ => {
                    let (name, either) = (app.name, group.join(" or "));
                    return Err(InitError::wrong(
                        "",
                        format!("{name} needs {either} before it"),
                        format!(
                            "add {either} to --procedures; for a dataset that is already converted, omit --dicom-root instead"
                        ),
                    ));
                }
            }
        }
        let added = choice.added.iter().map(|(name, _)| *name);
        for name in added {
            let app = catalogue.iter().find(|app| app.name == name);
            named.extend(app.filter(|app| !has(&named, &[app.name])));
        }
    }
    check_converters(&named, converts)?;
    // In the catalogue's order, but after all apps that they need.
    let is_free = |named: &[&App], app: &App| !app.needs.iter().any(|group| has(named, group));
    while let Some(next) = catalogue
        .iter()
        .find(|app| has(&named, &[app.name]) && is_free(&named, app))
    {
        named.retain(|app| app.name != next.name);
        choice.apps.push((*next).clone());
    }
    Ok(choice)
}

fn has(named: &[&App], any: &[&str]) -> bool {
    named.iter().any(|app| any.contains(&app.name))
}

/// Finds an app by name, ignoring case and dashes.
pub fn find<'a>(name: &str, catalogue: &'a [App]) -> Result<&'a App, InitError> {
    let folded = fold(name);
    if let Some(app) = catalogue.iter().find(|app| fold(app.name) == folded) {
        return Ok(app);
    }
    let known = || catalogue.iter().map(|app| app.name);
    let similar: Vec<&str> = suggest::candidates(name, known()).take(3).collect();
    let hint = match similar.as_slice() {
        [] => format!("available: {}", known().collect::<Vec<_>>().join(", ")),
        similar => format!(
            "did you mean {}? `snbb-scheduler init --list` shows all",
            similar.join(" or ")
        ),
    };
    let text = format!("the catalogue has no procedure '{}'", name.escape_debug());
    Err(InitError::wrong("", text, hint))
}

fn check_converters(named: &[&App], converts: bool) -> Result<(), InitError> {
    if let Some(app) = named.iter().find(|app| !converts && app.reads_dicom()) {
        return Err(InitError::wrong(
            "--procedures",
            format!("'{}' reads DICOM files, but none are given", app.name),
            "pass the DICOM files with --dicom-root, or omit this procedure",
        ));
    }
    let mut converters = named.iter().filter(|app| app.is_converter());
    if let (Some(first), Some(second)) = (converters.next(), converters.next()) {
        let (first, second) = (first.name, second.name);
        return Err(InitError::wrong(
            "",
            format!("{first} and {second} both convert DICOM files to the same bids_root"),
            "choose one of them",
        ));
    }
    Ok(())
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
            Err(error) => format!("{error} ({})", error.hint),
        }
    }

    #[test]
    fn needed_apps_are_added_and_come_first() {
        assert_eq!(chosen("", true), "");
        assert_eq!(chosen("prep,toA", true), "toA,prep");
        assert_eq!(chosen("After, PREP ,to-b", true), "toB,prep,after");
        assert_eq!(chosen("after", false), "prep,after +prep for after");
        assert_eq!(chosen("after,toA", true), "toA,prep,after +prep for after");
    }

    #[test]
    fn impossible_choices_are_errors_with_hints() {
        let choices = [
            ("prep", true),
            ("toA,toB", true),
            ("toA", false),
            ("pret", false),
            ("zzzzzzz", false),
        ];
        let errors = choices.map(|(names, converts)| chosen(names, converts));
        insta::assert_snapshot!(errors.join("\n"));
    }
}
