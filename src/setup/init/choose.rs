//! From names to apps of the catalogue, with all that they need. Pure.

use super::error::InitError;
use crate::model::bids::suggest;
use crate::model::bids::suggest::fold;
use crate::setup::catalogue::App;

/// What was chosen, each after those that it needs.
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
    let given = names.iter().map(|name| name.trim());
    for name in given.filter(|name| !name.is_empty()) {
        let app = find(name, names, catalogue)?;
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
                _ => return Err(needs(app, group)),
            }
        }
        let added = choice.added.iter().map(|(name, _)| *name);
        for name in added {
            let app = catalogue.iter().find(|app| app.name == name);
            named.extend(app.filter(|app| !has(&named, &[app.name])));
        }
    }
    check_converters(&named, converts)?;
    // Each in the catalogue's order, as soon as none is left that it needs.
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

/// Finds an app by its name, whatever its case and dashes. `all`: the names that were given.
fn find<'a>(name: &str, all: &[String], catalogue: &'a [App]) -> Result<&'a App, InitError> {
    let folded = fold(name);
    if let Some(app) = catalogue.iter().find(|app| fold(app.name) == folded) {
        return Ok(app);
    }
    let known = || catalogue.iter().map(|app| app.name);
    let near: Vec<&str> = suggest::candidates(name, known()).take(3).collect();
    let hint = match near.as_slice() {
        [] => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
        near => {
            let near = near.join(" or ");
            format!("did you mean {near}? `snbb-scheduler init --list` shows all")
        }
    };
    let corrected = near.first().map(|near| {
        let names = all.iter().map(|given| match given.trim() == name {
            true => *near,
            false => given.as_str(),
        });
        names.collect::<Vec<_>>().join(", ")
    });
    let text = format!(
        "there is no procedure '{}' in the catalogue",
        name.escape_debug()
    );
    Err(InitError::wrong("", text, hint).meaning(corrected))
}

fn needs(app: &App, group: &[&str]) -> InitError {
    let either = group.join(" or ");
    InitError::wrong(
        "",
        format!("{} needs one of {} before it", app.name, group.join(", ")),
        format!(
            "add one of them to --procedures ({either}); a dataset that is converted already needs no converter: leave \
             --dicom-root out"
        ),
    )
    .or_in_dialogue(format!("add {either}"))
}

fn check_converters(named: &[&App], converts: bool) -> Result<(), InitError> {
    if let Some(app) = named.iter().find(|app| !converts && app.reads_dicom()) {
        return Err(InitError::wrong(
            "--procedures",
            format!("'{}': works on DICOM files, and none are given", app.name),
            "say where DICOM files are (--dicom-root), or leave it out",
        )
        .or_in_dialogue("leave it out"));
    }
    let mut converters = named.iter().filter(|app| app.is_converter());
    if let (Some(first), Some(second)) = (converters.next(), converters.next()) {
        let (first, second) = (first.name, second.name);
        return Err(InitError::wrong(
            "",
            format!("{first} and {second} both convert DICOM files into the same bids_root"),
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
