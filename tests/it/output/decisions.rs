//! Decisions in words.

use super::*;

fn at(text: &str) -> chrono::DateTime<chrono::Utc> {
    text.parse().unwrap()
}

fn failed_with(outlook: Outlook) -> Skip {
    Skip::Failed {
        reason: Some(Reason::Timeout),
        attempt: 3,
        outlook,
    }
}

#[test]
fn every_decision_has_a_word_a_cell_and_a_sentence() {
    let skip = Decision::Skip;
    let fs = Some(Blocked::Failed(Some(Reason::Timeout)));
    let lines: Vec<String> = [
        Decision::Submit(Due::New),
        Decision::Submit(Due::OutputsGone),
        Decision::Submit(Due::FailedBefore { complete: false }),
        Decision::Submit(Due::Forced { complete: true }),
        Decision::Submit(Due::Forced { complete: false }),
        skip(Skip::Complete),
        skip(Skip::NotApplicable),
        in_flight(Some("123"), TaskStatus::Running, Some(Reason::Running)),
        in_flight(
            Some("123"),
            TaskStatus::Running,
            Some(Reason::AwaitingOutput),
        ),
        in_flight(Some("123_4"), TaskStatus::Pending, Some(Reason::Held)),
        in_flight(Some("7"), TaskStatus::Pending, None),
        in_flight(None, TaskStatus::Pending, Some(Reason::Submitting)),
        failed(Some(Reason::OutOfMemory), 2),
        failed(None, 1),
        skip(Skip::NoDicom),
        renamed(Some("123")),
        renamed(None),
        waiting("bids", "", 0, None),
        waiting("bids", "ses-02", 1, None),
        waiting("bids", "ses-02", 2, None),
        waiting("qsiprep", "ses-02", 4, fs),
        waiting("freesurfer", "", 0, Some(Blocked::Failed(None))),
        waiting(
            "bids",
            "ses-01",
            1,
            Some(Blocked::Unreadable(PathBuf::from("/x/y"))),
        ),
        unreadable("/x/y"),
        skip(Skip::OverLimit(Limit::MaxJobs(5))),
        skip(Skip::OverLimit(Limit::MaxSubmitPerRun(5))),
        skip(Skip::OverLimit(Limit::MaxInFlight(5))),
        skip(Skip::OverLimit(Limit::ProcedureMaxInFlight(5))),
        skip(Skip::OverLimit(Limit::QueuedUserJobs(5))),
        skip(Skip::OverLimit(Limit::Warmup {
            needed: 3,
            succeeded: 1,
            failed: 1,
        })),
        skip(Skip::Paused(Box::new(Pause {
            since: at("2026-03-01T04:05:06Z"),
            cause: PauseCause::Failures { count: 10 },
        }))),
        skip(Skip::Paused(Box::new(Pause {
            since: at("2026-03-01T04:05:06Z"),
            cause: PauseCause::Person {
                by: "anna".to_owned(),
                note: Some("new container".to_owned()),
            },
        }))),
        skip(failed_with(Outlook::At(at("2026-03-01T04:05:06Z")))),
        skip(failed_with(Outlook::Now)),
        skip(failed_with(Outlook::Spent(Budget {
            used: 3,
            allowed: 3,
            infrastructure: false,
        }))),
        skip(failed_with(Outlook::Spent(Budget {
            used: 5,
            allowed: 5,
            infrastructure: true,
        }))),
        Decision::Submit(Due::Retry {
            reason: Reason::Timeout,
            complete: true,
        }),
        Decision::Submit(Due::Retry {
            reason: Reason::Timeout,
            complete: false,
        }),
        Decision::Submit(Due::Stale),
        Decision::Submit(Due::LateInput),
        skip(Skip::LateInput),
        skip(Skip::Stale(vec![session_label("ses-03")])),
        skip(Skip::Stale(
            ["ses-03", "ses-04", "ses-05", "ses-06", "ses-07"]
                .map(session_label)
                .into(),
        )),
        skip(Skip::TooFewSessions {
            needed: 2,
            ready: 1,
        }),
        skip(Skip::Excluded),
        skip(Skip::NotSelected),
    ]
    .iter()
    .map(|decision| {
        let word = tables::TaskState::of(decision).as_str();
        let cell = tables::decision_cell(decision);
        assert!(cell == word || cell.starts_with(&format!("{word} (")));
        assert_eq!(tables::first_word(&cell), word);
        assert!(tables::short_cell(&cell).len() <= 5);
        format!("{word:<15} {cell:<23} {}", tables::decision_text(decision))
    })
    .collect();
    insta::assert_snapshot!("decisions", lines.join("\n"));
}
