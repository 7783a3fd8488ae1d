//! `docs/architecture.md` against the sources: its table holds every module, a module uses only those that stand
//! above it there, and every file that the page names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/architecture.md");
const LIB: &str = include_str!("../../src/lib.rs");

/// Pairs of a module and one below it that it uses all the same, each with its reason.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];

#[test]
fn a_module_uses_only_those_above_it_in_the_table() {
    let order = order();
    let place: BTreeMap<&str, usize> = order.iter().copied().zip(0..).collect();
    let mut complaints = Vec::new();
    let mut excepted = BTreeSet::new();
    for (module, file, text) in sources() {
        for used in used(&text) {
            if used == module {
                continue;
            }
            let known = EXCEPTIONS
                .iter()
                .find(|(from, to, _)| (*from, *to) == (module.as_str(), used));
            if let Some((from, to, _)) = known {
                excepted.insert((*from, *to));
            } else if place.get(used).is_none_or(|at| *at >= place[&*module]) {
                complaints.push(format!("{file} uses crate::{used}"));
            }
        }
    }
    for (from, to, _) in EXCEPTIONS {
        if !excepted.contains(&(from, to)) {
            complaints.push(format!("{from} does not use {to} any more"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_table_holds_every_module_once() {
    let mut listed = order();
    let mut declared: Vec<&str> = LIB
        .lines()
        .map(|line| line.strip_prefix("pub ").unwrap_or(line))
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    listed.sort_unstable();
    declared.sort_unstable();
    assert_eq!(listed, declared);
}

#[test]
fn every_file_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let missing: Vec<&str> = code(PAGE)
        .filter(|text| text.contains('/') || text.ends_with(".rs"))
        .filter(|text| !text.contains(['<', '*', ' ']))
        .filter(|text| {
            let is_there = |base: &Path| {
                ["", ".rs"].iter().any(|end| {
                    let path = base.join(format!("{text}{end}"));
                    fs::metadata(path).is_ok()
                })
            };
            !is_there(root) && !is_there(&root.join("src"))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Lists the modules of the table from top to bottom.
fn order() -> Vec<&'static str> {
    PAGE.lines()
        .skip_while(|line| !line.starts_with("| module "))
        .skip(2)
        .map_while(|line| line.strip_prefix('|')?.split('|').next())
        .flat_map(code)
        .collect()
}

/// Finds what stands between backticks, outside of blocks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .step_by(2)
        .flat_map(|part| part.split('`').skip(1).step_by(2))
}

/// Reads what the program is made of, tests left out: module, file, text.
fn sources() -> Vec<(String, String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let found: Vec<_> = walkdir::WalkDir::new(&src)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "rs"))
        .filter_map(|entry| {
            let path = entry.path().strip_prefix(&src).unwrap().with_extension("");
            let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
            let is_of_tests = parts.iter().any(|part| ["tests", "testing"].contains(part));
            (!is_of_tests && !["lib", "main"].contains(&parts[0])).then(|| {
                let text = fs::read_to_string(entry.path()).unwrap();
                (
                    parts[0].to_owned(),
                    path.display().to_string(),
                    without_tests(&text),
                )
            })
        })
        .collect();
    assert!(found.len() > 200, "{}", found.len());
    found
}

/// Takes comments, and what is compiled for tests only, out of a file as rustfmt leaves it.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    // The closing line of the item that is left out.
    let mut until: Option<String> = None;
    let mut is_next = false;
    for line in text.lines() {
        let rest = line.trim_start();
        if let Some(end) = &until {
            if line == end {
                until = None;
            }
        } else if is_next {
            is_next = rest.starts_with("#[");
            if rest.ends_with('{') {
                until = Some(format!("{}}}", &line[..line.len() - rest.len()]));
            }
        } else if rest == "#[cfg(test)]" {
            is_next = true;
        } else if !rest.starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Finds the modules that a text uses by their paths.
fn used(text: &str) -> BTreeSet<&str> {
    text.match_indices("crate::")
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .map(|(at, found)| {
            let rest = &text[at + found.len()..];
            let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
            let name = &rest[..end.unwrap_or(rest.len())];
            assert!(
                !name.is_empty(),
                "a use per module, please: {}",
                &rest[..40.min(rest.len())]
            );
            name
        })
        .collect()
}

#[test]
fn paths_are_found_where_they_count() {
    let text = "use crate::a::B;\n/// [`crate::b`]\nfn f() -> crate::c::D {}\n#[cfg(test)]\nmod tests {\n    \
                use crate::d::E;\n}\n#[cfg(test)]\nuse crate::e::F;\nuse crate::f;\n#[cfg(test)]\nmod testing;\n\
                use snbb_crate::g;\n";
    let kept = without_tests(text);
    assert_eq!(used(&kept).into_iter().collect::<Vec<_>>(), ["a", "c", "f"]);
}
