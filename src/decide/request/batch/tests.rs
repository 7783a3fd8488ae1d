use std::collections::HashSet;

use proptest::prelude::*;

use super::testing::prepared;
use super::*;
use crate::model::job::array::split_task_id;
use crate::model::procedure::Scope;
use crate::model::procedure::testing::procedure;

fn dag(mode: ArrayMode) -> ProcedureDag {
    let declared = ["a", "b", "c"].map(|name| {
        let mut one = procedure(name, Scope::Session, &[]);
        (one.rules.array, one.rules.array_throttle) = (mode, Some(2));
        one
    });
    ProcedureDag::new(declared.into()).unwrap()
}

fn grouped(tasks: Vec<Prepared>, mode: ArrayMode, limit: usize) -> Vec<Batch> {
    group(tasks, &dag(mode), &mut || limit, Path::new("/a"))
}

fn sizes(batches: &[Batch]) -> Vec<(bool, usize)> {
    batches
        .iter()
        .map(|batch| (batch.array.is_some(), batch.tasks.len()))
        .collect()
}

fn tasks(count: usize) -> Vec<Prepared> {
    (0..count).map(|number| prepared("a", number)).collect()
}

#[test]
fn auto_needs_ten_tasks_and_always_needs_one() {
    let auto = |count, limit| sizes(&grouped(tasks(count), ArrayMode::Auto, limit));
    assert_eq!(auto(9, 1001), [(false, 1); 9]);
    assert_eq!(auto(10, 1001), [(true, 10)]);
    assert_eq!(auto(21, 10), [(true, 10), (true, 10), (false, 1)]);
    let always = |count, limit| sizes(&grouped(tasks(count), ArrayMode::Always, limit));
    assert_eq!(always(1, 1001), [(true, 1)]);
    assert_eq!(always(7, 3), [(true, 3), (true, 3), (true, 1)]);
    assert_eq!(always(2, 0), [(false, 1); 2], "a site without arrays");
    assert_eq!(
        sizes(&grouped(tasks(30), ArrayMode::Never, 1001)),
        [(false, 1); 30]
    );
}

#[test]
fn the_array_limit_is_queried_once_and_only_for_arrays() {
    let asked = |tasks: Vec<Prepared>| {
        let mut count = 0;
        let mut limit = || {
            count += 1;
            5
        };
        group(tasks, &dag(ArrayMode::Auto), &mut limit, Path::new("/a"));
        count
    };
    assert_eq!(asked(tasks(9)), 0);
    let mut two = tasks(12);
    two.extend((0..12).map(|number| prepared("b", number)));
    assert_eq!(asked(two), 1);
}

#[test]
fn tasks_with_different_requests_are_not_grouped() {
    let mut list = tasks(12);
    list[3].request.resources.cpus_per_task = Some(9);
    list[4].request.env.insert("THREADS".into(), "9".into());
    list[5]
        .request
        .env
        .insert("SNBB_ATTEMPT".into(), "2".into());
    list[6].request.script = "other.sh".into();
    let batches = grouped(list, ArrayMode::Always, 100);
    assert_eq!(
        sizes(&batches),
        [(true, 9), (true, 1), (true, 1), (true, 1)]
    );
}

#[test]
fn a_refused_array_is_split_in_halves_with_new_ids() {
    let batch = grouped(tasks(5), ArrayMode::Always, 100).remove(0);
    let mut seen = HashSet::from([batch.array.clone().unwrap().submission_id]);
    let mut todo = vec![batch];
    let mut ones = Vec::new();
    while let Some(batch) = todo.pop() {
        match batch.halves() {
            Some(halves) => {
                for half in halves {
                    assert!(seen.insert(half.array.clone().unwrap().submission_id));
                    assert_eq!(half.array.as_ref().unwrap().throttle, Some(2));
                    todo.push(half);
                }
            }
            None => ones.push(batch),
        }
    }
    assert_eq!(ones.len(), 5);
    let single = ones.remove(0).one_by_one().remove(0);
    let task = &single.tasks[0];
    assert_eq!(single.array, None);
    assert_eq!(*task.intent.job_name, task.request.job_name);
    assert_eq!(task.intent.submission_id.len(), 16);
}

proptest! {
    /// Whatever is due: each task is in one batch, arrays are within the limit, numbered in order and
    /// alike, and tasks of one kind keep their order.
    #[test]
    fn every_task_is_covered_once(
        kinds in prop::collection::vec((0..3usize, 0..3u32), 0..120),
        limit in 0..20usize,
        mode in prop::sample::select(vec![ArrayMode::Never, ArrayMode::Auto, ArrayMode::Always]),
    ) {
        let tasks: Vec<Prepared> = kinds.iter().enumerate().map(|(number, (procedure, cpus))| {
            let mut task = prepared(["a", "b", "c"][*procedure], number);
            task.request.resources.cpus_per_task = Some(*cpus);
            task
        }).collect();
        let batches = grouped(tasks.clone(), mode, limit);
        let mut found: Vec<TaskPlace> = batches.iter().flat_map(|batch| batch.tasks.iter().map(place)).collect();
        let mut by_kind: Vec<Vec<TaskPlace>> = vec![Vec::new(); 9];
        for place in &found {
            by_kind[place.0].push(place.clone());
        }
        for places in by_kind {
            prop_assert!(places.is_sorted());
        }
        found.sort();
        let mut expected: Vec<TaskPlace> = tasks.iter().map(place).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
        let mut ids = HashSet::new();
        for batch in &batches {
            match &batch.array {
                None => prop_assert_eq!(batch.tasks.len(), 1),
                Some(array) => {
                    prop_assert!(batch.tasks.len() <= limit);
                    prop_assert!(mode == ArrayMode::Always || batch.tasks.len() > 1);
                    for (index, task) in batch.tasks.iter().enumerate() {
                        prop_assert_eq!(
                            split_task_id(&task.intent.submission_id),
                            Some((&*array.submission_id, index))
                        );
                        prop_assert_eq!(&*task.intent.job_name, array.job_name.as_str());
                        prop_assert!(is_alike(&batch.tasks[0], task));
                    }
                }
            }
            for task in &batch.tasks {
                prop_assert!(ids.insert(task.intent.submission_id.clone()));
                prop_assert_eq!(&*task.intent.submission_id, task.request.submission_id.as_str());
            }
        }
    }
}

type TaskPlace = (usize, String);

fn place(task: &Prepared) -> TaskPlace {
    let procedure = ["a", "b", "c"]
        .iter()
        .position(|name| **name == *task.request.key.procedure)
        .unwrap();
    let cpus = task.request.resources.cpus_per_task.unwrap() as usize;
    (procedure * 3 + cpus, task.request.key.subject.to_string())
}
