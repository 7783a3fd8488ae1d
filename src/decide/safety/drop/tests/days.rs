//! Losses in earlier runs: rows of the Python program, and losses of one day.

use super::*;

#[test]
fn c5_rows_of_the_python_program_are_not_lost_outputs() {
    let config = config("");
    let id = config.procedures.find("a").unwrap();
    let decide = |due| Manifest {
        tasks: (0..20)
            .map(|number| {
                let decision = Decision::Submit(due);
                planned(&config.procedures, id, &format!("sub-{number}"), decision)
            })
            .collect(),
    };
    for (due, reason, is_alarm) in [
        (Due::NeverVerified, None, false),
        (Due::OutputsGone, Some(Reason::Verified), true),
    ] {
        let mut state = State::default();
        for number in 0..20 {
            let mut done = row("a", TaskStatus::Complete, Reason::Verified);
            done.key.subject = format!("sub-{number}").as_str().into();
            done.reason = reason;
            state.put(done);
        }
        let counts = Counts::of(&config.procedures, &decide(due), &state, &[], at(0));
        let got = messages(&config, &counts, &Baselines::new());
        assert_eq!(!got.is_empty(), is_alarm, "{got:?}");
    }
}

/// Twelve complete tasks; four lose their outputs before each run and are submitted again. `jobs_end`: their jobs
/// succeed before the next run. Returns the number of the run that stops.
fn run_that_stops(has_rows: bool, jobs_end: bool, hours_between: i64) -> Option<usize> {
    let config = config("");
    let id = config.procedures.find("a").unwrap();
    let mut state = State::default();
    let mut attempts = Vec::new();
    let mut baselines = after(
        &config,
        &[counts(9, figures(12, 12, 0, 0), Figures::default())],
    );
    let put = |state: &mut State, number: usize, status, reason, attempt, at_minute| {
        let mut row = row("a", status, reason);
        row.key.subject = format!("sub-{number:02}").as_str().into();
        row.attempt = Some(attempt);
        row.submitted_at = Some(at(at_minute));
        state.put(row.clone());
        row
    };
    let (done, flying) = (TaskStatus::Complete, TaskStatus::Running);
    for number in (0..12).filter(|_| has_rows) {
        put(&mut state, number, done, Reason::Verified, 1, -100_000);
    }
    for run in 0..3usize {
        let now = 60 * hours_between * run as i64;
        let decision = |number: usize| match number / 4 {
            lost if lost == run && has_rows => Decision::Submit(Due::OutputsGone),
            lost if lost == run => Decision::Submit(Due::New),
            lost if lost < run && !jobs_end => Decision::Skip(Skip::InFlight {
                job_id: None,
                status: flying,
                reason: None,
            }),
            _ => Decision::Skip(Skip::Complete),
        };
        let manifest = Manifest {
            tasks: (0..12)
                .map(|number| {
                    let subject = format!("sub-{number:02}");
                    planned(&config.procedures, id, &subject, decision(number))
                })
                .collect(),
        };
        let counts = Counts::of(&config.procedures, &manifest, &state, &attempts, at(now));
        if !safety_stops(&config, &counts, &baselines).is_empty() {
            return Some(run + 1);
        }
        settle(&config, &counts, &mut baselines, false);
        for number in run * 4..run * 4 + 4 {
            let before = state.get(&TaskKey::new(&format!("sub-{number:02}"), "ses-01", "a"));
            attempts.extend(before.cloned());
            let (status, reason) = match jobs_end {
                true => (done, Reason::Verified),
                false => (flying, Reason::Running),
            };
            put(
                &mut state,
                number,
                status,
                reason,
                if has_rows { 2 } else { 1 },
                now,
            );
        }
    }
    None
}

#[test]
fn e20_losses_of_one_day_add_up() {
    for jobs_end in [true, false] {
        assert_eq!(
            run_that_stops(true, jobs_end, 1),
            Some(2),
            "jobs end: {jobs_end}"
        );
    }
    assert_eq!(
        run_that_stops(false, false, 1),
        Some(2),
        "tasks without rows"
    );
    assert_eq!(run_that_stops(true, true, 25), None, "days apart");
}

#[test]
fn e20_an_accepted_loss_causes_no_stop_while_its_tasks_run() {
    let config = config("");
    let full = || figures(20, 20, 0, 0);
    let mut baselines = after(&config, &[counts(9, full(), Figures::default())]);
    let now = |gone, lately| {
        let of_a = Figures {
            lately,
            known: 20,
            ..figures(20, 20 - gone, gone, gone)
        };
        counts(9, of_a, Figures::default())
    };
    assert_eq!(messages(&config, &now(8, 0), &baselines).len(), 1);
    settle(&config, &now(8, 0), &mut baselines, true);
    for (gone, lately, is_alarm) in [(4, 4, false), (0, 8, false), (2, 8, false), (5, 8, true)] {
        let got = messages(&config, &now(gone, lately), &baselines);
        assert_eq!(!got.is_empty(), is_alarm, "{gone} {lately}: {got:?}");
    }
    // A day later.
    settle(&config, &now(0, 0), &mut baselines, false);
    assert!(!baselines.contains_key("accepted/a"));
}
