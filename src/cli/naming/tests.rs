use super::*;

fn known() -> Known<'static> {
    Known {
        sessions: [
            ("sub-0001", "ses-01"),
            ("sub-0001", "ses-02"),
            ("sub-0002", "ses-01"),
        ]
        .into(),
        place: "in the study",
        is_partial: false,
    }
}

#[test]
fn unknown_names_are_refused_with_suggestions() {
    for (subjects, sessions, message, hint) in [
        (
            "99",
            "",
            "no subject sub-99 in the study",
            "available: sub-0001, sub-0002",
        ),
        (
            "sub-1",
            "",
            "no subject sub-1 in the study",
            "did you mean sub-0001?",
        ),
        (
            "9*",
            "",
            "no subject in the study matches sub-9*",
            "available: sub-0001, sub-0002",
        ),
        (
            "1",
            "77",
            "no subject sub-1 in the study",
            "did you mean sub-0001?",
        ),
        (
            "0001",
            "03",
            "no session ses-03 of sub-0001 in the study",
            "available: ses-01, ses-02",
        ),
        (
            "0002",
            "02",
            "no session ses-02 of sub-0002 in the study",
            "available: ses-01",
        ),
        (
            "0001",
            "5",
            "no session ses-5 of sub-0001 in the study",
            "available: ses-01, ses-02",
        ),
        (
            "0002",
            "0003",
            "no session ses-0003 of sub-0002 in the study",
            "available: ses-01",
        ),
        (
            "",
            "1",
            "no session ses-1 in the study",
            "did you mean ses-01?",
        ),
        (
            "",
            "9",
            "no session ses-9 in the study",
            "available: ses-01, ses-02",
        ),
    ] {
        let values = |text: &str| -> Vec<String> {
            (!text.is_empty())
                .then(|| text.to_owned())
                .into_iter()
                .collect()
        };
        let refused = known().refuse((&values(subjects), &values(sessions)));
        let refused = refused.unwrap_err();
        assert_eq!(refused.to_string(), message);
        assert!(refused.hint().unwrap().contains(hint), "{refused:?}");
    }
}

#[test]
fn d19_names_that_may_exist_are_not_refused() {
    let values = |text: &str| vec![text.to_owned()];
    let all = known();
    assert!(all.refuse((&[], &[])).is_ok());
    assert!(all.refuse((&values("0001"), &values("02"))).is_ok());
    assert!(all.refuse((&values("*"), &values("0*"))).is_ok());
    let [some, none] =
        [(true, vec![("sub-1", "")]), (false, vec![])].map(|(is_partial, sessions)| Known {
            is_partial,
            sessions,
            ..known()
        });
    assert!(some.refuse((&values("99"), &[])).is_ok());
    assert!(none.refuse((&values("99"), &[])).is_ok());
}

fn named(words: &str) -> String {
    match Named::new(words.split(' '), &["bids", "qsiprep", "01"]) {
        Ok(named) => format!(
            "{} {} {}",
            named.subject,
            named.session.as_deref().unwrap_or("-"),
            named.procedure.as_deref().unwrap_or("-")
        ),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn words_are_understood_in_any_order_with_or_without_prefix() {
    for (words, expected) in [
        ("sub-1", "sub-1 - -"),
        ("1", "sub-1 - -"),
        ("1 a", "sub-1 ses-a -"),
        ("1 - bids", "sub-1 - bids"),
        ("1 a bids", "sub-1 ses-a bids"),
        ("1 bids", "sub-1 - bids"),
        ("bids sub-1 ses-a", "sub-1 ses-a bids"),
        ("bids sub-1", "sub-1 - bids"),
        ("ses-a bids 1", "sub-1 ses-a bids"),
        ("bids", "sub-bids - -"),
        ("sub-1 01", "sub-1 - 01"),
        ("01 01", "sub-01 - 01"),
        ("01 02 01", "sub-01 ses-02 01"),
        (
            "1 a bidz",
            "no procedure 'bidz' (available: bids, qsiprep, 01)",
        ),
        ("sub-1 sub-2", "both 'sub-1' and 'sub-2' are given"),
        ("ses-1", "missing subject"),
    ] {
        assert_eq!(named(words), expected, "{words}");
    }
}
