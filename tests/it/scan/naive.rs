//! The evaluation over listings against a second, plain one: every path of the tree, one by one.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use snbb_scheduler::gather::completion::probe::Probe;
use snbb_scheduler::gather::completion::{Completion, Completions};
use snbb_scheduler::gather::disk::Unreadable;
use snbb_scheduler::gather::disk::reader::Reader;
use snbb_scheduler::model::annex::Annex;
use snbb_scheduler::model::bids::{SessionLabel, SubjectLabel};
use snbb_scheduler::model::procedure::marker::{CompletionRule, Marker, Pattern, Required};
use snbb_scheduler::model::procedure::{Procedure, ProcedureDag};
use walkdir::WalkDir;

use super::pipeline::step;

/// Matches a name with `*` and `?`, letter by letter.
fn name_matches(glob: &[u8], name: &[u8]) -> bool {
    match (glob.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            name_matches(&glob[1..], name) || (!name.is_empty() && name_matches(glob, &name[1..]))
        }
        (Some(b'?'), Some(_)) => name_matches(&glob[1..], &name[1..]),
        (Some(a), Some(b)) if a == b => name_matches(&glob[1..], &name[1..]),
        _ => false,
    }
}

fn component_matches(glob: &str, name: &str) -> bool {
    (!name.starts_with('.') || glob.starts_with('.'))
        && name_matches(glob.as_bytes(), name.as_bytes())
}

fn path_matches(glob: &[&str], path: &[&str]) -> bool {
    match (glob.first(), path.first()) {
        (None, None) => true,
        (Some(&"**"), _) if glob.len() == 1 => {
            !path.is_empty() && path.iter().all(|name| !name.starts_with('.'))
        }
        (Some(&"**"), Some(name)) => {
            path_matches(&glob[1..], path)
                || (!name.starts_with('.') && path_matches(glob, &path[1..]))
        }
        (Some(glob_name), Some(name)) => {
            component_matches(glob_name, name) && path_matches(&glob[1..], &path[1..])
        }
        _ => false,
    }
}

/// True if something below `output` matches; `None` if only what leads nowhere may. Links in these trees lead to files
/// or nowhere.
fn is_satisfied(output: &Path, glob: &str, min_size: u64, annex: Annex) -> Option<bool> {
    let parts: Vec<&str> = glob.split('/').filter(|part| !part.is_empty()).collect();
    let mut is_known = true;
    for entry in WalkDir::new(output).min_depth(1) {
        let Ok(entry) = entry else { continue };
        let below = entry.path().strip_prefix(output).unwrap().to_str().unwrap();
        let path: Vec<&str> = below.split('/').collect();
        let is_match = path_matches(&parts, &path);
        let Ok(metadata) = fs::metadata(entry.path()) else {
            if fs::read_link(entry.path()).unwrap_or_default() != Path::new(ANNEXED) {
                is_known &= !may_hide(&parts, &path);
            } else if is_match && annex == Annex::Present && min_size <= 5 && !glob.ends_with('/') {
                return Some(true);
            }
            continue;
        };
        if is_match
            && (metadata.is_dir() || metadata.len() >= min_size)
            && (metadata.is_dir() || !glob.ends_with('/'))
        {
            return Some(true);
        }
    }
    is_known.then_some(false)
}

/// True if what leads nowhere may be a match, or a directory that holds one. `**` does not go through links.
fn may_hide(glob: &[&str], path: &[&str]) -> bool {
    (1..=glob.len()).any(|end| {
        let is_walked = end < glob.len() && glob[end - 1] == "**";
        !is_walked && path_matches(&glob[..end], path)
    })
}

fn naive(output: &Path, markers: &[String], forbid: &[String], annex: Annex) -> Completion {
    let wild = |glob: &String| u64::from(glob.contains(['*', '?']));
    let required = markers
        .iter()
        .map(|glob| is_satisfied(output, glob, wild(glob), annex));
    let forbidden = forbid
        .iter()
        .map(|glob| is_satisfied(output, glob, 0, annex).map(|is_there| !is_there));
    for is_good in required.chain(forbidden) {
        match is_good {
            Some(true) => {}
            Some(false) => return Completion::Incomplete,
            None => {
                return Completion::Unreadable(Box::new(Unreadable {
                    path: output.to_owned(),
                    error: String::new(),
                }));
            }
        }
    }
    Completion::Complete
}

#[derive(Debug, Clone)]
enum Item {
    File(String, usize),
    Directory(String),
    Link(String),
    Annexed(String),
}

/// The target of a file of git-annex whose content, five bytes, is elsewhere.
const ANNEXED: &str = "../.git/annex/objects/Xk/9m/MD5E-s5--0a.gz/MD5E-s5--0a.gz";

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "ab", ".a", "a.x"]),
        1..4,
    )
    .prop_map(|names| names.join("/"))
}

fn globs() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "*", "**", "a*", "*b", "?", ".*", "*.x", "a.x",
    ]);
    (prop::collection::vec(part, 1..4), prop::bool::weighted(0.1))
        .prop_map(|(parts, slash)| parts.join("/") + if slash { "/" } else { "" })
}

fn items() -> impl Strategy<Value = Item> {
    prop_oneof![
        4 => (paths(), 0usize..3).prop_map(|(path, size)| Item::File(path, size)),
        1 => paths().prop_map(Item::Directory),
        1 => paths().prop_map(Item::Link),
        1 => paths().prop_map(Item::Annexed),
    ]
}

fn build(output: &Path, items: &[Item]) {
    fs::create_dir_all(output).unwrap();
    for item in items {
        let (Item::File(path, _) | Item::Directory(path) | Item::Link(path) | Item::Annexed(path)) =
            item;
        let at = output.join(path);
        // Where a name is taken by another kind of thing, the first one stays.
        let _ = match item {
            _ if fs::create_dir_all(at.parent().unwrap()).is_err() => continue,
            Item::File(_, size) if fs::symlink_metadata(&at).is_err() => {
                fs::write(&at, "x".repeat(*size))
            }
            Item::File(..) => Ok(()),
            Item::Directory(_) => fs::create_dir_all(&at),
            // To nothing, or to a file of one byte outside.
            Item::Link(path) if path.len().is_multiple_of(2) => {
                std::os::unix::fs::symlink("/nonexistent", &at)
            }
            Item::Link(_) => std::os::unix::fs::symlink(output.with_extension("file"), &at),
            Item::Annexed(_) => std::os::unix::fs::symlink(ANNEXED, &at),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn listings_and_plain_walking_agree(
        items in prop::collection::vec(items(), 0..10),
        markers in prop::collection::vec(globs(), 1..3),
        forbid in prop::collection::vec(globs(), 0..2),
        is_present in any::<bool>(),
    ) {
        let annex = if is_present { Annex::Present } else { Annex::Absent };
        let tmp = tempfile::tempdir().unwrap();
        let output = tmp.path().join("d/p/sub-01/ses-1");
        build(&output, &items);
        fs::write(output.with_extension("file"), "x").unwrap();
        let parse = |globs: &[String]| -> Vec<Pattern> {
            globs.iter().map(|glob| Pattern::parse(glob).unwrap()).collect()
        };
        let procedure = Procedure {
            name: Arc::from("p"),
            completion: CompletionRule {
                required: Required::Markers(parse(&markers).into_iter().map(Marker::new).collect()),
                forbid: parse(&forbid),
            },
            ..step("p", "p", &[], &[])
        };
        let steps = ProcedureDag::new(vec![procedure]).unwrap();
        let id = steps.find("p").unwrap();
        let probe = Probe::of(tmp.path().join("b"), tmp.path().join("d"), steps, None).unwrap()
            .with_reader(Reader::default().with_annex(annex));
        let subject = SubjectLabel::new("sub-01").unwrap();
        let answer = probe.for_subject(&subject).completion(id, &SessionLabel::new("ses-1").unwrap());
        let answer = match answer {
            Completion::Unreadable(_) => Completion::Unreadable(Box::new(Unreadable {
                path: output.clone(),
                error: String::new(),
            })),
            known => known,
        };
        let expected = naive(&output, &markers, &forbid, annex);
        prop_assert_eq!(answer, expected);
    }
}
