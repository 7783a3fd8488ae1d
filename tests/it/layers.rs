//! `docs/architecture.md` against the sources: its table holds every module, a module uses only those above it there,
//! no two files import each other, directly or around a corner, and every file that the page names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/architecture.md");

/// At most this many entries in `src/`: a listing of it is the architecture.
const MOST_ENTRIES: usize = 14;

/// A source file without its tests: its path in the crate, and its text.
type Source = (Vec<String>, String);

#[test]
fn a_module_uses_only_those_above_it_in_the_table() {
    let order = order();
    let place: BTreeMap<&str, usize> = order.iter().copied().zip(0..).collect();
    let sources = sources();
    let files = files(&sources);
    let mut complaints = Vec::new();
    for (path, text) in &sources {
        let Some(own) = module_of(path, &place) else {
            continue;
        };
        for used in used(path, text, &files) {
            let Some(module) = module_of(&used, &place) else {
                complaints.push(format!("{} uses {}", path.join("::"), used.join("::")));
                continue;
            };
            if module != own && place[module] > place[own] {
                complaints.push(format!("{} uses {module}", path.join("::")));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn no_files_import_each_other() {
    let sources = sources();
    let files = files(&sources);
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in &sources {
        let own = path.join("::");
        let used = used(path, text, &files).into_iter();
        // What a file declares is there for the files in its folder.
        let used = used.map(|used| used.join("::"));
        let others = used.filter(|used| *used != own && !own.starts_with(&format!("{used}::")));
        edges.entry(own.clone()).or_default().extend(others);
    }
    // Whoever is left after all that use nothing more were taken out is part of a circle, or uses one.
    while let Some(free) = edges
        .iter()
        .find(|(_, used)| used.iter().all(|used| !edges.contains_key(used)))
        .map(|(file, _)| file.clone())
    {
        edges.remove(&free);
    }
    assert!(edges.is_empty(), "circles among: {edges:#?}");
}

#[test]
fn the_table_holds_every_module_once() {
    let mut listed = order();
    let sources = sources();
    let whole = ["config", "cli"];
    let mut found: Vec<String> = sources
        .iter()
        .filter_map(|(path, _)| match &path[..] {
            [group] if whole.contains(&group.as_str()) || group == "executor" => {
                Some(group.clone())
            }
            [group, module] if !whole.contains(&group.as_str()) => {
                Some(format!("{group}::{module}"))
            }
            _ => None,
        })
        .collect();
    listed.sort_unstable();
    found.sort_unstable();
    assert_eq!(listed, found);
}

#[test]
fn a_listing_of_the_sources_shows_the_architecture() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = walkdir::WalkDir::new(src)
        .min_depth(1)
        .max_depth(1)
        .into_iter()
        .count();
    assert!(entries <= MOST_ENTRIES, "{entries} entries in src/");
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

/// The modules of the table from top to bottom: `base::sys`, or a group that is one module.
fn order() -> Vec<&'static str> {
    PAGE.lines()
        .skip_while(|line| !line.starts_with("| module "))
        .skip(2)
        .map_while(|line| line.strip_prefix('|')?.split('|').next())
        .flat_map(code)
        .collect()
}

/// What is between backticks, outside of blocks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .step_by(2)
        .flat_map(|part| part.split('`').skip(1).step_by(2))
}

/// The module of the table that a path belongs to.
fn module_of<'a>(path: &[String], place: &BTreeMap<&'a str, usize>) -> Option<&'a str> {
    let full = path.iter().take(2).cloned().collect::<Vec<_>>().join("::");
    let find = |name: &str| place.get_key_value(name).map(|(name, _)| *name);
    find(&full).or_else(|| find(path.first()?))
}

/// What the program is made of, tests left out.
fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let found: Vec<_> = walkdir::WalkDir::new(&src)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "rs"))
        .filter_map(|entry| {
            let path = entry.path().strip_prefix(&src).unwrap().with_extension("");
            let mut parts: Vec<String> = path
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if parts.last().unwrap() == "mod" {
                parts.pop();
            }
            let is_of_tests = parts
                .iter()
                .any(|part| ["tests", "testing"].contains(&part.as_str()));
            let text = || without_tests(&fs::read_to_string(entry.path()).unwrap());
            (!is_of_tests && !["lib", "main"].contains(&parts[0].as_str())).then(|| (parts, text()))
        })
        .collect();
    assert!(found.len() > 200, "{}", found.len());
    found
}

fn files(sources: &[Source]) -> BTreeSet<Vec<String>> {
    sources.iter().map(|(path, _)| path.clone()).collect()
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

/// The files that a file uses: by `use`, by a path in the code, or through a module that it imports.
fn used(own: &[String], text: &str, files: &BTreeSet<Vec<String>>) -> BTreeSet<Vec<String>> {
    let mut paths = Vec::new();
    let mut imported: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let is_use = rest[..at].ends_with(['\n', ' ']) || at == 0;
        let end = rest[at..].find(';').map_or(rest.len(), |end| at + end);
        if is_use {
            let mut leaves = Vec::new();
            leaves_of("", &rest[at + 4..end], &mut leaves);
            for leaf in leaves {
                let (path, name) = match leaf.split_once(" as ") {
                    Some((path, name)) => (path.to_owned(), name.trim().to_owned()),
                    None => {
                        let path = leaf.trim_end_matches("::self").to_owned();
                        let name = path.rsplit("::").next().unwrap().to_owned();
                        (path, name)
                    }
                };
                if let Some(full) = absolute(own, &path, files) {
                    imported.insert(name, full.clone());
                    paths.push(full);
                }
            }
        }
        rest = &rest[end.max(at + 4)..];
    }
    for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        let Some((head, tail)) = word.split_once("::").filter(|_| !word.ends_with(':')) else {
            continue;
        };
        if let Some(full) = imported.get(head) {
            let tail = tail.split("::").map(str::to_owned);
            paths.push(full.iter().cloned().chain(tail).collect());
        } else {
            paths.extend(absolute(own, word, files));
        }
    }
    let file = |path: Vec<String>| {
        (1..=path.len())
            .rev()
            .map(|len| path[..len].to_vec())
            .find(|part| files.contains(part))
    };
    paths.into_iter().filter_map(file).collect()
}

/// `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn leaves_of(before: &str, tree: &str, out: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        out.push(format!("{before}{tree}"));
        return;
    };
    let before = format!("{before}{}", head.trim());
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let mut depth = 0;
    let parts = inner.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    for part in parts.filter(|part| !part.trim().is_empty()) {
        leaves_of(&before, part, out);
    }
}

/// A path from the root of the crate; none for one of another crate.
fn absolute(own: &[String], path: &str, files: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path.split("::").map(str::to_owned).collect();
    let mut base = own.to_vec();
    match parts[0].as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            let ups = parts.iter().take_while(|part| *part == "super").count();
            base.truncate(own.len().checked_sub(ups)?);
            parts.drain(1..ups);
        }
        child => {
            base.push(child.to_owned());
            return files.contains(&base).then(|| {
                base.extend(parts.drain(1..));
                base
            });
        }
    }
    base.extend(parts.drain(1..));
    Some(base)
}

#[test]
fn paths_are_found_where_they_count() {
    let text = "use crate::a::{B, c::{self, D}};\n/// [`crate::no::X`]\nfn f() -> crate::d::D { e::f::G; super::h::I }\n#[cfg(test)]\nmod \
                tests {\n    use crate::no::E;\n}\n#[cfg(test)]\nuse crate::no::F;\nuse crate::a::e;\n#[cfg(test)]\nmod \
                testing;\nuse snbb_crate::no::g;\n";
    let file = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let names = ["a", "a::c", "a::e", "a::e::f", "d", "h", "no", "x", "x::y"];
    let files = names.iter().map(|name| file(name)).collect();
    let found = used(&file("x::y"), &without_tests(text), &files);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a", "a::c", "a::e", "a::e::f", "d", "x"]);
}

#[test]
fn the_map_of_the_tests_names_every_theme() {
    let map: BTreeSet<&str> = code(include_str!("README.md")).collect();
    let themes = include_str!("main.rs").lines();
    let themes = themes.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let missing: Vec<&str> = themes.filter(|theme| !map.contains(theme)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
