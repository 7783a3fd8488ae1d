//! `sbatch_args`: which further options of sbatch a procedure may pass.
//!
//! Refused are those that would change what a job is found by, how sbatch answers, how many jobs
//! there are, or what the script sees.

use super::reader::Value;
use crate::model::procedure::options::{self, Argument, Arguments, Class};

/// Reads the list.
pub(super) fn read(value: &Value<'_>) -> Option<Arguments> {
    if value.is_scalar() {
        let hint = "write one list entry per option, such as [--nice=100, --exclusive]";
        value.problem_with("must be a list, not a single value", hint);
        return None;
    }
    let items = value.items()?;
    let texts = items.iter().enumerate();
    let arguments = Arguments::parse(texts.filter_map(|(at, item)| Some((at, item.text()?))));
    for argument in arguments.iter() {
        if let Some(item) = items.get(argument.at) {
            check(item, argument);
        }
    }
    // Its answers name no cluster, so that nobody could tell whose job an id is.
    if options::clusters(&arguments).contains(&"all") {
        value.problem_with(
            "--clusters=all: the clusters must be named",
            "list them: --clusters=first,second",
        );
    }
    Some(arguments)
}

fn check(item: &Value<'_>, argument: &Argument) {
    let word = &argument.word;
    let Some(option) = argument.option else {
        if word == "--" || word.starts_with("--=") {
            item.problem(format!("'{word}' is no option of sbatch"));
        } else if !argument.is_option() {
            item.problem_with(
                format!("'{word}' is no option: sbatch would take it for the script"),
                "write an option and its value as one entry, such as --nice=100",
            );
        }
        return;
    };
    let long = format!("--{}", option.long);
    let (name, short) = match argument.letter {
        Some(letter) => (format!("-{letter} ({long})"), format!("-{letter}")),
        None => (long.clone(), long),
    };
    match option.class {
        Class::Refused(why) | Class::Unfit(why) => {
            item.problem(format!("'{word}': {name} cannot be passed here, {why}"));
        }
        Class::Key(key) => item.warn(format!("{short} has a key of its own, '{key}'")),
        Class::Free => {}
    }
    if argument.is_open() {
        item.problem(format!(
            "'{word}' has no value: sbatch would take the script for it"
        ));
    }
}
