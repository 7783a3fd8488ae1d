//! Tests of the journal's file: any bytes, any cut, any failure.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::model::state::State;

/// Earlier versions read and wrote exactly these lines.
#[test]
fn attack_lines_have_format_version_1() {
    let text = |entry: &Entry| {
        let mut line = Vec::new();
        line::write(&mut line, 12, entry);
        let line = String::from_utf8(line).unwrap();
        line.split_once(",\"batch\":12,\"entry\":")
            .unwrap()
            .1
            .to_owned()
    };
    let mut plain = intent(1, "x", 2, 0);
    assert_eq!(
        text(&Entry::Intent(plain.clone())),
        concat!(
            r#"{"intent":{"submission_id":"x","subject":"sub-1","session":"ses-01","procedure":"qsiprep","#,
            r#""job_name":"qsiprep_sub-1_ses-01","attempt":2,"submitted_at":"2023-11-14T22:13:20Z","#,
            r#""replaces_outputs":false,"req_mem_mb":1000,"time_limit_s":null}}}"#,
            "\n"
        )
    );
    plain.retry.retries = 1;
    plain.input_sessions = Some("ses-01 ses-02".into());
    let end = r#""time_limit_s":null,"retry":{"retries":1},"input_sessions":"ses-01 ses-02"}}}"#;
    assert!(text(&Entry::Intent(plain)).trim_end().ends_with(end));
    assert_eq!(
        text(&accepted("x", "7", 0)).trim_end(),
        r#"{"accepted":{"submission_id":"x","job_id":"7","cluster":null,"at":"2023-11-14T22:13:20Z"}}}"#
    );
    assert_eq!(
        text(&in_doubt("x", 0)).trim_end(),
        r#"{"in_doubt":{"submission_id":"x","message":"Socket timed out on send/recv operation","at":"2023-11-14T22:13:20Z"}}}"#
    );
}

#[test]
fn keeps_what_was_appended() {
    let place = Place::new();
    assert_eq!(read(&place.path).unwrap(), []);
    let entries = some_entries(6);
    let bytes = place.write(&[&entries[..6], &[], &entries[6..]]);
    assert_eq!(read(&place.path).unwrap(), entries);
    // Opening again changes nothing.
    Journal::open(&place.path).unwrap();
    assert_eq!(fs::read(&place.path).unwrap(), bytes);
    for line in bytes.split(|&byte| byte == b'\n').filter(|l| !l.is_empty()) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert!(value.get("crc").is_some() && value.get("entry").is_some());
    }
}

#[test]
fn a_cut_anywhere_keeps_a_prefix_and_accepts_new_entries() {
    let place = Place::new();
    let entries = some_entries(3);
    let bytes = place.write(&[&entries[..3], &entries[3..4], &entries[4..]]);
    let more = sending("later", 9);
    let mut lengths = Vec::new();
    for end in 0..=bytes.len() {
        fs::write(&place.path, &bytes[..end]).unwrap();
        let found = read(&place.path).unwrap();
        assert!(entries.starts_with(&found), "cut at {end}");
        lengths.push(found.len());
        // Syncs take their time.
        if end % 13 != 0 && end + 2 < bytes.len() {
            continue;
        }
        let mut journal = Journal::open(&place.path).unwrap();
        journal.append(std::slice::from_ref(&more)).unwrap();
        let mut expected = found;
        expected.push(more.clone());
        assert_eq!(read(&place.path).unwrap(), expected, "cut at {end}");
    }
    assert!(lengths.is_sorted());
    // A line that lacks only its newline is complete.
    assert_eq!(lengths[bytes.len() - 1], entries.len());
    assert_eq!(lengths[bytes.len() - 2], entries.len() - 1);
}

#[test]
fn changed_byte_is_found_wherever_it_is() {
    let place = Place::new();
    let entries = some_entries(3);
    let bytes = place.write(&[&entries[..3], &entries[3..5], &entries[5..8], &entries[8..]]);
    let last_append = 1 + bytes[..bytes.len() - 1]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .unwrap();
    for at in 0..bytes.len() {
        for mask in [0x01, 0x20, 0x80, bytes[at], bytes[at] ^ b'\n'] {
            if mask == 0 {
                continue;
            }
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            let found = line::scan(&bad);
            match found.damaged.first() {
                None => {
                    assert!(entries.starts_with(&found.entries), "byte {at}");
                    // The newline before the last append: two lines have become one.
                    assert!(at + 1 >= last_append, "byte {at} was not noticed");
                }
                Some((line, _)) => {
                    let before = bytes[..at].iter().filter(|&&b| b == b'\n').count();
                    assert_eq!(*line, before + 1, "byte {at}");
                }
            }
        }
    }
    let mut bad = bytes;
    bad[700] ^= 1;
    fs::write(&place.path, &bad).unwrap();
    assert!(Journal::open(&place.path).is_err());
    assert_eq!(fs::read(&place.path).unwrap(), bad, "damage is kept");
}

#[test]
fn zeros_of_a_crash_count_only_in_the_last_append() {
    let place = Place::new();
    let entries = some_entries(40);
    let first = place.write(&[&entries[..40]]).len();
    let bytes = place.write(&[&entries[40..]]);
    for length in [1, 100, 512, 4096] {
        for at in (0..bytes.len()).step_by(97) {
            let mut torn = bytes.clone();
            let end = (at + length).min(torn.len());
            torn[at..end].fill(0);
            fs::write(&place.path, &torn).unwrap();
            let found = read(&place.path);
            if at >= first {
                assert!(entries.starts_with(&found.unwrap()), "{at} {length}");
            } else {
                assert!(found.is_err(), "{at} {length}");
            }
        }
    }
    for zeros in [1, 4096] {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + zeros, 0);
        fs::write(&place.path, &longer).unwrap();
        assert_eq!(read(&place.path).unwrap(), entries);
        Journal::open(&place.path).unwrap();
        assert_eq!(fs::read(&place.path).unwrap(), bytes);
    }
}

#[test]
fn damage_is_reported_with_line_and_hint() {
    let place = Place::new();
    let entries = some_entries(3);
    let bytes = place.write(&[&entries[..3], &entries[3..]]);
    let text = String::from_utf8(bytes).unwrap();
    fs::write(&place.path, text.replacen("sub-1", "sub-7", 1)).unwrap();
    let error = read(&place.path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the journal {} is damaged at line 2: its checksum is wrong",
            place.path.display()
        )
    );
    assert!(error.hint().contains("state repair"));
}

#[test]
fn lines_of_a_newer_version_are_damage_too() {
    let rest = br#""batch":0,"entry":{"promised":{"submission_id":"x"}}}"#;
    let mut text = format!("{{\"crc\":\"{:08x}\",", crc32fast::hash(rest)).into_bytes();
    text.extend_from_slice(rest);
    text.push(b'\n');
    let start = text.len() as u64;
    line::write(&mut text, start, &sending("x", 1));
    let damaged = line::scan(&text).damaged;
    assert!(damaged[0].1.contains("newer version"), "{damaged:?}");
}

#[test]
fn failed_append_ends_the_journal() {
    let place = Place::new();
    let mut journal = Journal::open(&place.path).unwrap();
    journal.append(&[sending("a", 1)]).unwrap();
    fs::remove_file(&place.path).unwrap();
    let error = journal.append(&[sending("b", 1)]).unwrap_err();
    assert!(matches!(
        error,
        JournalError::NotRecorded { .. } | JournalError::Replaced { .. }
    ));
    // Even if writing would work again.
    fs::write(&place.path, "").unwrap();
    for entries in [&[sending("c", 1)][..], &[]] {
        let error = journal.append(entries).unwrap_err();
        assert!(
            matches!(error, JournalError::FailedBefore { .. }),
            "{error}"
        );
    }
    assert_eq!(fs::read(&place.path).unwrap(), b"");
}

#[test]
fn no_intent_is_written_once_another_process_has_written() {
    let place = Place::new();
    place.write(&[&some_entries(2)]);
    let before = read(&place.path).unwrap();
    let mut mine = Journal::open(&place.path).unwrap();
    mine.append(&[sending("mine", 1)]).unwrap();
    // A second process, in spite of the lock.
    let mut other = Journal::open(&place.path).unwrap();
    other.append(&[sending("other", 1)]).unwrap();
    let error = mine.append(&[sending("never sent", 2)]).unwrap_err();
    assert!(matches!(error, JournalError::Shared { .. }), "{error}");
    mine.append_facts(&[sending("mine", 2)]).unwrap();
    assert_eq!(read(&place.path).unwrap().len(), before.len() + 3);
}

#[test]
fn anything_but_a_regular_file_is_refused() {
    let place = Place::new();
    fs::create_dir(&place.path).unwrap();
    assert!(read(&place.path).is_err());
    assert!(Journal::open(&place.path).is_err());
    fs::remove_dir(&place.path).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &place.path,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    for error in [
        read(&place.path).unwrap_err(),
        Journal::open(&place.path).unwrap_err(),
    ] {
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn ten_thousand_intents_are_one_append() {
    let place = Place::new();
    let entries: Vec<_> = (0..10_000)
        .map(|n| Entry::Intent(intent(n, &format!("id{n}"), 1, 0)))
        .collect();
    place.write(&[&entries]);
    assert_eq!(read(&place.path).unwrap(), entries);
}

fn any_time() -> impl Strategy<Value = DateTime<Utc>> {
    (-2_000_000_000_i64..20_000_000_000, 0..1_000_000_u32)
        .prop_map(|(s, us)| DateTime::from_timestamp(s, us * 1000).unwrap())
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let text = || any::<String>().prop_map(Arc::<str>::from);
    prop_oneof![
        (
            (text(), text(), text(), text(), text()),
            any::<(i32, bool, Option<i64>, Option<i64>)>(),
            any_time(),
        )
            .prop_map(|((subject, session, procedure, id, name), rest, at)| {
                Entry::Intent(Intent {
                    key: TaskKey {
                        subject,
                        session,
                        procedure,
                    },
                    submission_id: id,
                    job_name: name,
                    attempt: rest.0,
                    submitted_at: at,
                    replaces_outputs: rest.1,
                    retry: Default::default(),
                    input_sessions: None,
                    project: None,
                    state_file: None,
                    req_mem_mb: rest.2,
                    time_limit_s: rest.3,
                })
            }),
        (text(), any_time()).prop_map(|(submission_id, at)| Entry::Sending { submission_id, at }),
        (
            text(),
            any::<String>(),
            proptest::option::of(text()),
            any_time()
        )
            .prop_map(|(submission_id, job, cluster, at)| Entry::Accepted {
                submission_id,
                job_id: JobId::new(&job),
                cluster,
                at,
            }),
        (text(), any::<String>(), any_time()).prop_map(|(submission_id, message, at)| {
            Entry::Refused {
                submission_id,
                message,
                at,
            }
        }),
        (text(), any::<String>(), any_time()).prop_map(|(submission_id, message, at)| {
            Entry::InDoubt {
                submission_id,
                message,
                at,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn any_entries_survive(entries in proptest::collection::vec(any_entry(), 0..20)) {
        let mut text = Vec::new();
        for entry in &entries {
            line::write(&mut text, 0, entry);
        }
        let found = line::scan(&text);
        prop_assert!(found.damaged.is_empty());
        prop_assert_eq!(found.complete, text.len());
        prop_assert_eq!(found.entries, entries);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = line::scan(&bytes);
    }

    #[test]
    fn any_mixture_is_survived(
        pieces in proptest::collection::vec((0..5_usize, any::<u16>(), any::<Vec<u8>>()), 0..12)
    ) {
        let mut whole = Vec::new();
        for entry in some_entries(2) {
            line::write(&mut whole, 0, &entry);
        }
        let mut bytes = Vec::new();
        for (kind, at, junk) in pieces {
            let at = usize::from(at) % whole.len();
            match kind {
                0 => bytes.extend_from_slice(&junk),
                1 => bytes.extend_from_slice(&whole[at..]),
                2 => bytes.extend_from_slice(&whole[..at]),
                3 => bytes.push(b'\n'),
                _ => bytes.extend_from_slice(&whole),
            }
        }
        let _ = line::scan(&bytes);
    }
}

/// Measures the journal: `cargo test --lib journal::tests::file::cost -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    let place = Place::new();
    let entries: Vec<_> = (0..10_000)
        .map(|n| Entry::Intent(intent(n, &format!("id{n}"), 1, 0)))
        .collect();
    let start = std::time::Instant::now();
    let mut journal = Journal::open(&place.path).unwrap();
    println!("open: {:?}", start.elapsed());
    let start = std::time::Instant::now();
    journal.append(&entries).unwrap();
    println!("append of 10,000 intents: {:?}", start.elapsed());
    let start = std::time::Instant::now();
    for n in 0..100 {
        journal
            .append(&[accepted("id1", "1", n), sending("id2", n)])
            .unwrap();
    }
    println!(
        "append of a result and a sending: {:?}",
        start.elapsed() / 100
    );
    let start = std::time::Instant::now();
    let entries = read(&place.path).unwrap();
    println!("read: {:?}", start.elapsed());
    let start = std::time::Instant::now();
    replay(&entries, &mut State::default());
    println!("replay: {:?}", start.elapsed());
}
