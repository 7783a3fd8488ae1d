//! The entries by themselves: they load without a word, agree with their scripts, and depend on what they say.

use std::path::Path;

use snbb_scheduler::model::procedure::{MemSize, TimeLimit};
use snbb_scheduler::setup::catalogue::{App, apps};

use super::site::{ROOT, load, with_needs};

#[test]
fn each_entry_loads_with_what_it_needs_and_without_a_warning() {
    for app in apps() {
        let needed = with_needs(app);
        let entries: String = needed.iter().map(|app| &*app.entry).collect();
        let config = load(Path::new("/site"), &entries);
        assert!(
            config.warnings.is_empty(),
            "{}: {:?}",
            app.name,
            config.warnings
        );
        let dag = &config.procedures;
        let id = dag.find(app.name).unwrap();
        assert_eq!(dag.get(id).script, format!("{}.sh", app.name));
        let found: Vec<&str> = dag
            .dependencies(id)
            .iter()
            .map(|(id, _)| &*dag.get(*id).name)
            .collect();
        let first: Vec<&str> = app.needs.iter().map(|any| any[0]).collect();
        assert_eq!(found, first, "{}", app.name);
        assert_eq!(
            dag.iter().count(),
            needed.len(),
            "one entry each: {}",
            app.name
        );
    }
}

/// What a site gets that takes everything, with each of the converters.
#[test]
fn all_entries_load_together() {
    for converter in ["heudiconv", "dcm2bids"] {
        let chosen: Vec<&App> = apps()
            .iter()
            .filter(|app| app.name == converter || !["heudiconv", "dcm2bids"].contains(&app.name))
            .collect();
        let names: Vec<&str> = chosen.iter().map(|app| app.name).collect();
        let entries: Vec<String> = chosen
            .iter()
            .map(|app| app.entry_for(&names, None))
            .collect();
        let config = load(Path::new("/site"), &entries.join("\n"));
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        assert_eq!(config.procedures.iter().count(), chosen.len());
    }
}

#[test]
fn a_site_with_a_ready_dataset_needs_no_converter() {
    for app in apps().iter().filter(|app| !app.needs.is_empty()) {
        let config = load(Path::new("/site"), &app.entry_for(&[], None));
        let id = config.procedures.find(app.name).unwrap();
        assert!(
            config.procedures.dependencies(id).is_empty(),
            "{}",
            app.name
        );
    }
}

/// What stands in a comment as `#key` or `#- item` is meant to be used by taking the `#` away.
#[test]
fn what_is_commented_out_is_valid_too() {
    let mut taken = 0;
    for app in apps() {
        let in_use: Vec<String> = app
            .entry_for(&[], None)
            .lines()
            .map(|line| match line.split_once('#') {
                Some((indent, rest)) if indent.trim().is_empty() && !rest.starts_with(' ') => {
                    taken += 1;
                    format!("{indent}{rest}")
                }
                _ => line.to_owned(),
            })
            .collect();
        let config = load(Path::new("/site"), &in_use.join("\n"));
        assert!(
            config.warnings.is_empty(),
            "{}: {:?}",
            app.name,
            config.warnings
        );
    }
    assert!(taken >= 10, "{taken}");
}

/// Options on the command line win over `#SBATCH` lines, so two opinions would surprise whoever edits the script.
#[test]
fn entry_and_script_ask_for_the_same() {
    for app in apps() {
        let needed: String = with_needs(app).iter().map(|app| &*app.entry).collect();
        let config = load(Path::new("/site"), &needed);
        let id = config.procedures.find(app.name).unwrap();
        let asked = &config.procedures.get(id).resources;
        let sbatch = |option: &str| {
            let prefix = format!("#SBATCH --{option}=");
            let found = app
                .script
                .lines()
                .find_map(|line| line.strip_prefix(&prefix));
            found
                .unwrap_or_else(|| panic!("{}: no {prefix}", app.name))
                .to_owned()
        };
        let mem = MemSize::parse(&sbatch("mem")).unwrap();
        let time = TimeLimit::parse(&sbatch("time")).unwrap();
        assert_eq!(asked.mem, Some(mem), "{}", app.name);
        let asked_time = asked.time.as_ref().unwrap();
        assert_eq!(asked_time.seconds(), time.seconds(), "{}", app.name);
        let cpus = asked.cpus_per_task.map(|cpus| cpus.to_string());
        assert_eq!(cpus, Some(sbatch("cpus-per-task")), "{}", app.name);
    }
}

/// Comment lines say what a site may change; an entry that grew wider than a terminal would not be read.
#[test]
fn entries_can_be_pasted_and_read() {
    for app in apps() {
        assert!(app.entry.starts_with("  # "), "{}", app.name);
        assert!(
            app.entry.contains(&format!("\n  - name: {}\n", app.name)),
            "{}",
            app.name
        );
        assert!(app.entry.ends_with('\n') && !app.entry.contains('\t'));
        for line in app.entry.lines().chain(app.script.lines()) {
            assert!(line.chars().count() <= 125, "{}: {line}", app.name);
            assert_eq!(line, line.trim_end(), "{}", app.name);
        }
        assert!(
            app.entry.contains(app.docs.trim_end_matches('/')),
            "{}",
            app.name
        );
        let page = std::fs::read_to_string(
            Path::new(ROOT).join(format!("slurm_templates/{}.sh", app.name)),
        );
        assert_eq!(page.unwrap(), app.script);
    }
}
