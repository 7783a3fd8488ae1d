//! `docs/procedures.md`: its table is that of the code, it names all variables of the scripts, and its example works.

use std::fmt::Write as _;
use std::path::Path;

use regex::Regex;
use snbb_scheduler::setup::catalogue::apps;

use super::site::{ROOT, load};
use crate::harness::{Study, executable};

fn page() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("docs/procedures.md")).unwrap()
}

fn table() -> String {
    let mut table = String::from(
        "| name | what it is for | once per | after | memory, CPUs, time |\n|---|---|---|---|---|\n",
    );
    for app in apps() {
        let config = load(Path::new("/site"), &app.entry_for(&[], None));
        let procedure = config
            .procedures
            .get(config.procedures.find(app.name).unwrap());
        let after: Vec<String> = app.needs.iter().map(|any| any.join(" or ")).collect();
        let asked = &procedure.resources;
        writeln!(
            table,
            "| [`{}`]({}) | {} | {} | {} | {}, {}, {} |",
            app.name,
            app.docs,
            app.about,
            procedure.scope,
            after.join(", "),
            asked.mem.as_ref().unwrap(),
            asked.cpus_per_task.unwrap(),
            asked.time.as_ref().unwrap(),
        )
        .unwrap();
    }
    table
}

/// Set `UPDATE_DOCS=1` to write the table anew.
#[test]
fn the_table_is_that_of_the_code() {
    let before = page();
    let (head, rest) = before.split_once("<!-- catalogue: table -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end of catalogue -->").unwrap();
    let after = format!(
        "{head}<!-- catalogue: table -->\n{}<!-- end of catalogue -->{tail}",
        table()
    );
    if after != before && snbb_scheduler::base::sys::env("UPDATE_DOCS").is_some() {
        std::fs::write(Path::new(ROOT).join("docs/procedures.md"), &after).unwrap();
        return;
    }
    assert!(
        after == before,
        "docs/procedures.md is old: run with UPDATE_DOCS=1"
    );
}

/// The default that a script gives a variable, and `""` for none; several scripts may differ.
fn defaults(variable: &str) -> Vec<(String, Vec<&'static str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for app in apps() {
        let start = format!("${{{variable}");
        let uses = app.script.match_indices(&start).map(|(at, _)| at);
        for rest in uses.map(|at| &app.script[at + start.len()..]) {
            let Some(rest) = rest.strip_prefix(":-").or(rest.strip_prefix('-')) else {
                continue;
            };
            // Up to the brace that closes this one.
            let mut depth = 1;
            let end = rest.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth == 0
            });
            let default = &rest[..end.unwrap()];
            match found.iter_mut().find(|(known, _)| known == default) {
                Some((_, names)) if names.contains(&app.name) => {}
                Some((_, names)) => names.push(app.name),
                None => found.push((default.to_owned(), vec![app.name])),
            }
        }
    }
    found
}

/// The last cell of a row of the table of variables.
fn defaults_of_row(variables: &str) -> String {
    let shown = |text: &str| match text {
        "" => "none".to_owned(),
        text => format!("`{text}`"),
    };
    let name = Regex::new("`(SNBB_[A-Z0-9_]+)`").unwrap();
    let mut cells: Vec<String> = Vec::new();
    for found in name.captures_iter(variables) {
        let defaults = defaults(&found[1]);
        let cell = match defaults.as_slice() {
            [] => "must be set".to_owned(),
            [(only, _)] => shown(only),
            several => {
                let each = several.iter();
                let each = each.map(|(text, apps)| format!("{}: {}", apps.join(", "), shown(text)));
                each.collect::<Vec<_>>().join("; ")
            }
        };
        cells.push(cell);
    }
    if cells.iter().all(|cell| *cell == cells[0]) {
        cells.truncate(1);
    }
    cells.join(", ")
}

/// Set `UPDATE_DOCS=1` to write the cells anew.
#[test]
fn d25_defaults_of_variables_are_those_of_the_scripts() {
    let before = page();
    let after: Vec<String> = before
        .split_inclusive('\n')
        .map(|line| {
            let cells: Vec<&str> = line.trim_end().split(" | ").collect();
            // The first two rows are about what the program sets, and about all images.
            let is_row = line.starts_with("| `SNBB_")
                && !line.contains("set by the program")
                && !line.contains("<NAME>");
            match cells.as_slice() {
                [variables, about, _] if is_row => {
                    format!("{variables} | {about} | {} |\n", defaults_of_row(variables))
                }
                _ => line.to_owned(),
            }
        })
        .collect();
    let after = after.concat();
    if after != before && snbb_scheduler::base::sys::env("UPDATE_DOCS").is_some() {
        std::fs::write(Path::new(ROOT).join("docs/procedures.md"), &after).unwrap();
        return;
    }
    assert!(
        after == before,
        "docs/procedures.md is old: run with UPDATE_DOCS=1"
    );
}

#[test]
fn each_variable_of_the_scripts_is_explained() {
    let page = page();
    let variable = Regex::new(r"\$\{(SNBB_[A-Z0-9_]+)").unwrap();
    for app in apps() {
        for found in variable.captures_iter(app.script) {
            let name = &found[1];
            let is_image = name.ends_with("_IMAGE");
            assert!(
                is_image || page.contains(&format!("`{name}`")),
                "{}: {name}",
                app.name
            );
        }
    }
    let written = Regex::new("`(SNBB_[A-Z0-9_]+)`").unwrap();
    let known: String = apps().iter().map(|app| app.script).collect();
    let set_by_the_program = [
        "SNBB_SUBJECT",
        "SNBB_SESSION",
        "SNBB_PROCEDURE",
        "SNBB_ATTEMPT",
        "SNBB_LAST_REASON",
    ];
    for found in written.captures_iter(&page) {
        let name = &found[1];
        assert!(
            known.contains(&format!("${{{name}")) || set_by_the_program.contains(&name),
            "{name}"
        );
    }
}

/// Returns the first fenced block of a language after a heading.
fn block<'a>(page: &'a str, heading: &str, language: &str) -> &'a str {
    let rest = page.split_once(heading).unwrap().1;
    let rest = rest.split_once(&format!("```{language}\n")).unwrap().1;
    rest.split_once("```").unwrap().0
}

#[test]
fn the_example_of_ones_own_procedure_works() {
    let page = page();
    let study = Study::new();
    let heading = "## A procedure of your own";
    study.configure(&format!(
        "executor: local\ndiscover: bids\n{}",
        block(&page, heading, "yaml")
    ));
    study.write("tissue.sh", block(&page, heading, "bash"));
    executable(&study.at("tissue.sh"));
    study.write("bids/sub-01/ses-01/anat/sub-01_ses-01_T1w.nii.gz", "image");
    study.write("bids/sub-01/ses-02/func/sub-01_ses-02_bold.nii.gz", "image");
    study.ok(&["run"]);
    study.ok(&["wait", "--interval", "1s"]);
    assert_eq!(
        study.statuses(),
        ["tissue sub-01 ses-01: complete verified"]
    );
}
