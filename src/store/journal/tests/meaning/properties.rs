//! Journals of any runs, cut and replayed anywhere.

use super::*;

/// A journal of several crashed runs, for three tasks.
fn valid_journal() -> impl Strategy<Value = (Vec<TaskRow>, Vec<Entry>)> {
    let before = proptest::collection::vec(0..4_u8, 3);
    let runs = proptest::collection::vec(
        (0..8_u8, proptest::collection::vec((0..9_u8, 0..3_u8), 3)),
        1..4,
    );
    (before, runs).prop_map(|(before, runs)| {
        let rows: Vec<_> = before
            .iter()
            .enumerate()
            .filter_map(|(task, kind)| match kind {
                0 => None,
                1 => Some(row(task, TaskStatus::Failed, Some(2))),
                // From the Python program.
                2 => Some(row(task, TaskStatus::Failed, None)),
                _ => Some(row(task, TaskStatus::Complete, Some(1))),
            })
            .collect();
        let mut entries = Vec::new();
        let mut in_flight = [false; 3];
        let mut clock = 0;
        let mut tick = || {
            clock += 1;
            clock
        };
        for (run, (crash, tasks)) in runs.iter().enumerate() {
            let free: Vec<_> = (0..3).filter(|&task| !in_flight[task]).collect();
            for &task in &free {
                let attempt = rows
                    .iter()
                    .find(|row| row.key == intent(task, "", 1, 0).key)
                    .and_then(|row| row.attempt)
                    .unwrap_or(0)
                    + 1;
                let id = format!("r{run}t{task}");
                entries.push(Entry::Intent(intent(task, &id, attempt, tick())));
            }
            for (nth, &task) in free.iter().enumerate() {
                if usize::from(*crash) == nth {
                    break;
                }
                let id = format!("r{run}t{task}");
                let (outcome, retries) = tasks[task];
                for _ in 0..retries {
                    entries.push(sending(&id, tick()));
                    entries.push(refused(&id, tick()));
                }
                entries.push(sending(&id, tick()));
                in_flight[task] = true;
                match outcome {
                    0..3 => entries.push(accepted(&id, &format!("{run}{task}"), tick())),
                    3..5 => {
                        entries.push(refused(&id, tick()));
                        in_flight[task] = false;
                    }
                    5 => entries.push(in_doubt(&id, tick())),
                    6 => {
                        entries.push(in_doubt(&id, tick()));
                        entries.push(accepted(&id, &format!("{run}{task}"), tick()));
                    }
                    // Killed.
                    _ => break,
                }
            }
        }
        (rows, entries)
    })
}

proptest! {
    #[test]
    fn replaying_twice_is_replaying_once((rows, entries) in valid_journal(), cut in any::<prop::sample::Index>()) {
        let prefix = &entries[..cut.index(entries.len() + 1)];
        let mut once = state_of(&rows);
        replay(prefix, &mut once);
        let mut twice = once.clone();
        prop_assert!(replay(prefix, &mut twice).is_empty());
        prop_assert_eq!(once.rows(), twice.rows());
        prop_assert_eq!(once.superseded(), twice.superseded());
        // The same after saving, when there is nothing left to save.
        let mut saved = state_of(once.rows());
        prop_assert!(replay(prefix, &mut saved).is_empty());
        prop_assert!(!saved.is_changed());
        prop_assert_eq!(once.rows(), saved.rows());
    }

    #[test]
    fn saving_at_any_moment_makes_no_difference(
        (rows, entries) in valid_journal(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(entries.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = Saved::of(&rows).fold(&entries);
        let mut stepwise = Saved::of(&rows);
        for cut in cuts {
            stepwise = stepwise.fold(&entries[..cut]);
        }
        stepwise = stepwise.fold(&entries);
        prop_assert_eq!(stepwise.view(), whole.view());
    }

    #[test]
    fn every_accepted_job_is_in_a_row((rows, entries) in valid_journal()) {
        let saved = Saved::of(&rows).fold(&entries);
        for entry in &entries {
            if let Entry::Accepted { job_id, .. } = entry {
                let known = saved.rows.iter().chain(&saved.attempts)
                    .any(|row| row.job_id.as_ref() == Some(job_id));
                prop_assert!(known, "job {} is lost", job_id);
            }
        }
        for row in &rows {
            let known = saved.rows.iter().chain(&saved.attempts).any(|other| other == row);
            prop_assert!(known, "row {:?} is lost", row);
        }
    }

    /// Arbitrary entries in any order: nothing panics, and replaying twice changes nothing.
    #[test]
    fn arbitrary_entries_cause_no_panic(
        (rows, entries) in valid_journal(),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let shuffled: Vec<_> = if entries.is_empty() { Vec::new() } else {
            order.iter().map(|at| at.get(&entries).clone()).collect()
        };
        let mut once = state_of(&rows);
        replay(&shuffled, &mut once);
        let mut twice = once.clone();
        replay(&shuffled, &mut twice);
        prop_assert_eq!(once.rows(), twice.rows());
        prop_assert_eq!(once.superseded(), twice.superseded());
    }
}
