use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::config::{Overrides, load};
use crate::model::state::TaskRow;
use crate::model::state::table::Metadata;
use crate::model::state::testing::{at, row};
use crate::show::notify::{Command, Figures, Invocation};

fn samples(text: &str) -> Vec<(&str, f64)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

fn rendered(rows: Vec<TaskRow>) -> String {
    let procedures = b"procedures: [{name: a, output_dir: a, script: a}]\n";
    let (cwd, overrides) = (std::path::Path::new("/"), Overrides::default());
    let config = load::interpret(procedures, None, false, &|_| None, &overrides, cwd).unwrap();
    let state = State::from_rows(rows, None, Metadata::default());
    let mut memory = Memory::default();
    memory.add(&Invocation {
        figures: Some(Figures::default()),
        ..Invocation::begin(Command::Run, at(1))
    });
    let study = Study {
        config: &config,
        project: "p",
        state: Some(&state),
        control: Some(&Control::default()),
        memory: &memory,
    };
    render(&study, true)
}

#[test]
fn an_empty_study_has_zeros() {
    let text = rendered(Vec::new());
    for line in [
        "snbb_scheduler_tasks{project=\"p\",procedure=\"a\",status=\"failed\"} 0",
        "snbb_scheduler_tasks_in_doubt{project=\"p\"} 0",
        "snbb_scheduler_safety_stop{project=\"p\"} 0",
        "snbb_scheduler_procedure_paused{project=\"p\",procedure=\"a\"} 0",
        "snbb_scheduler_study_paused{project=\"p\"} 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(!text.contains("oldest_pending"), "there is none");
}

#[test]
fn labels_are_escaped_and_empty_families_left_out() {
    let (out, project) = (String::new(), "p".to_owned());
    let mut text = Text { out, project };
    text.family::<0, &str>("none", "Nothing", [], []);
    text.family("some", "Something", ["a", "b"], [(["x\\y\"z\n", "é"], 0.5)]);
    text.one("runs_total", "Runs", 3.0);
    assert_eq!(
        text.out,
        "# HELP snbb_scheduler_some Something\n\
         # TYPE snbb_scheduler_some gauge\n\
         snbb_scheduler_some{project=\"p\",a=\"x\\\\y\\\"z\\n\",b=\"é\"} 0.5\n\
         # HELP snbb_scheduler_runs_total Runs\n\
         # TYPE snbb_scheduler_runs_total counter\n\
         snbb_scheduler_runs_total{project=\"p\"} 3\n"
    );
}

proptest! {
    /// The counts add up to the number of rows, whatever the procedures' names.
    #[test]
    fn the_counts_match_the_rows(
        rows in proptest::collection::vec((0usize..4, "[a-c\\\\\"\n]{1,2}"), 0..30),
    ) {
        let words = [Reason::Queued, Reason::Running, Reason::Verified, Reason::Lost];
        let rows: Vec<TaskRow> = rows
            .into_iter()
            .enumerate()
            .map(|(number, (word, name))| {
                let mut row = row(&name, TaskStatus::ALL[word], words[word]);
                row.key.subject = Arc::from(format!("sub-{number}"));
                row.submitted_at = Some(at(number as i64));
                row
            })
            .collect();
        let text = rendered(rows.clone());
        let sum = |prefix: &str| -> f64 {
            let prefix = format!("snbb_scheduler_{prefix}");
            samples(&text)
                .iter()
                .filter(|(name, _)| name.starts_with(&prefix))
                .map(|(_, value)| value)
                .sum()
        };
        let count = |status| rows.iter().filter(|row| row.status == status).count() as f64;
        prop_assert_eq!(sum("tasks{"), rows.len() as f64);
        prop_assert_eq!(sum("tasks_failed{"), count(TaskStatus::Failed));
        // Every line is one sample: no name breaks out of its quotes.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            prop_assert!(line.starts_with("snbb_scheduler_"), "{}", line);
            prop_assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok());
        }
    }
}
