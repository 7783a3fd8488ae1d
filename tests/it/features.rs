//! `docs/proofs/` against the tests that it names: each row and each promise of `docs/reliability.md` is there
//! once and has text, and every test that it names exists and is not ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const FEATURES: &str = include_str!("../../docs/proofs/features.md");
const PROMISED: &str = include_str!("../../docs/reliability.md");
const PROVEN: &str = include_str!("../../docs/proofs/reliability.md");

/// Groups of rows: beginning, and the last number.
const GROUPS: [(&str, usize); 4] = [("F", 43), ("J", 28), ("S", 29), ("P", 44)];

/// Faults have numbers with gaps.
const FAULTS: &str = "D01 D02 D02b D03 D04 D05 D05b D05c D06 D07 D08 D09 D10 D14 D15 D17 D17b D18 D19 D21 D24 D24b D26 \
    D27 D28 D30 D31 D32 D34 D34b D34c D35 D39 D42 D45 D46 D48a D48b D48c D48d D48e D48f D51 D53 D56 D58 D59 D60 D62 \
    D63 D64 D65 D66 D72 H1 S1";

const PROMISES: usize = 46;

/// A row without a test gives its reason in so many words at least.
const WORDS: usize = 6;

#[test]
fn every_row_is_there_and_names_tests_that_exist() {
    let mut expected: Vec<String> = FAULTS.split_whitespace().map(str::to_owned).collect();
    for (group, last) in GROUPS {
        expected.extend((1..=last).map(|number| format!("{group}{number:02}")));
    }
    check("docs/proofs/features.md", FEATURES, &expected);
}

#[test]
fn every_promise_is_there_and_names_tests_that_exist() {
    let expected: Vec<String> = (1..=PROMISES).map(|number| number.to_string()).collect();
    check("docs/proofs/reliability.md", &proven_promises(), &expected);
}

/// The promises, each beside its proof, as rows of three cells.
fn proven_promises() -> String {
    let proofs: BTreeMap<&str, &str> = PROVEN
        .lines()
        .filter_map(row)
        .map(|cells| (cells[0], cells[1]))
        .collect();
    let promises = PROMISED.lines().filter_map(row);
    let rows = promises.map(|cells| {
        let proof = proofs.get(cells[0]).copied().unwrap_or_default();
        format!("| {} | {} | {proof} |\n", cells[0], cells[1])
    });
    let rest = PROVEN.lines().filter(|line| row(line).is_none());
    rows.chain(rest.map(|line| format!("{line}\n"))).collect()
}

fn check(page: &str, text: &str, expected: &[String]) {
    let tests = tests();
    let mut complaints = Vec::new();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{page}:{}", number + 1);
        for name in names(line).filter(|name| !tests.contains(*name)) {
            complaints.push(format!(
                "{place}: there is no test {name}{}",
                moved(name, &tests)
            ));
        }
        let Some(cells) = row(line) else { continue };
        let [id, about, proof] = cells[..] else {
            complaints.push(format!("{place}: {} cells", cells.len()));
            continue;
        };
        *times.entry(id).or_default() += 1;
        if !expected.iter().any(|known| known == id) {
            complaints.push(format!("{place}: there is no row {id}"));
        }
        let words = |cell: &str| cell.split_whitespace().count();
        if words(about) < 2 || proof.is_empty() {
            complaints.push(format!("{place}: row {id} is empty"));
        }
        if names(proof).next().is_none() && words(about) + words(proof) < WORDS {
            complaints.push(format!("{place}: row {id} has neither test nor reason"));
        }
    }
    for id in expected {
        match times.get(id.as_str()) {
            Some(1) => {}
            None => complaints.push(format!("{page}: row {id} is missing")),
            Some(count) => complaints.push(format!("{page}: row {id} is there {count} times")),
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Says where a test of the same name is.
fn moved(name: &str, tests: &BTreeSet<String>) -> String {
    let last = name.rsplit("::").next().unwrap_or(name);
    let found = tests
        .iter()
        .find(|test| test.rsplit("::").next() == Some(last));
    found.map_or_else(String::new, |test| format!(" (is it {test} now?)"))
}

/// Splits a row of a table, without its head.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line
        .strip_prefix('|')?
        .strip_suffix('|')?
        .split('|')
        .map(str::trim)
        .collect();
    let is_head = cells[0].starts_with("---") || ["row", "no."].contains(&cells[0]);
    (!is_head).then_some(cells)
}

/// Finds what looks like a test's name in a line: code with `::` in it.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.contains("::") && !code.contains("::tests::NAME"))
        .filter(|code| *code != "::tests::")
}

/// Lists the tests that are not ignored: those of the library by their path in it, the others by that in `tests/it`.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found: BTreeSet<String> = ["src", "tests/it"]
        .iter()
        .flat_map(|base| {
            let base = root.join(base);
            walkdir::WalkDir::new(&base)
                .into_iter()
                .map(Result::unwrap)
                .filter(|entry| entry.path().extension().is_some_and(|end| end == "rs"))
                .flat_map(|entry| {
                    let path = entry.path().strip_prefix(&base).unwrap();
                    tests_of(&module(path), &fs::read_to_string(entry.path()).unwrap())
                })
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(found.len() > 800, "{}", found.len());
    found
}

/// Returns the module that a file is.
fn module(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if ["mod", "lib", "main"].contains(&parts.last().unwrap().as_str()) {
        parts.pop();
    }
    parts
}

/// Reads the tests out of a file as rustfmt leaves it: a module ends at its own depth.
fn tests_of(module: &[String], text: &str) -> Vec<String> {
    let mut within: Vec<(usize, &str)> = Vec::new();
    let mut found = Vec::new();
    // After `#[test]`; false once it is to be ignored.
    let mut is_test = None;
    for line in text.lines() {
        let rest = line.trim_start();
        let depth = line.len() - rest.len();
        if rest == "}" && within.last().is_some_and(|(own, _)| *own == depth) {
            within.pop();
        }
        if let Some(name) = rest.strip_prefix("mod ").and_then(|r| r.strip_suffix(" {")) {
            within.push((depth, name));
        } else if rest == "#[test]" {
            is_test = Some(true);
        } else if rest.starts_with("#[ignore") {
            is_test = is_test.map(|_| false);
        } else if let Some(rest) = rest.strip_prefix("fn ") {
            let name = rest.split(['(', '<', ' ']).next().unwrap();
            if is_test.take() == Some(true) && !name.starts_with('$') {
                let inner = within.iter().map(|(_, name)| (*name).to_owned());
                let path: Vec<String> = module.iter().cloned().chain(inner).collect();
                found.push(format!("{}::{name}", path.join("::")));
            }
        }
    }
    found
}

#[test]
fn tests_are_found_where_they_are() {
    let text = "#[test]\nfn a() {}\nmod tests {\n    mod b {\n        #[test]\n        #[ignore = \"x\"]\n        fn c() {}\n    }\n    \
                proptest! {\n        #[test]\n        fn d(x in 0..1) {}\n    }\n}\nfn e() {}\n#[test]\nfn f() {}\n";
    let module = module(Path::new("x/y/mod.rs"));
    assert_eq!(
        tests_of(&module, text),
        ["x::y::a", "x::y::tests::d", "x::y::f"]
    );
    let row = row("| F01 | a job | `run::x`, `b` and `y::tests::z` |").unwrap();
    assert_eq!((row.len(), row[0]), (3, "F01"));
    assert_eq!(names(row[2]).collect::<Vec<_>>(), ["run::x", "y::tests::z"]);
}
