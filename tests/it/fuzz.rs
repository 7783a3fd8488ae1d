//! The short run of the fuzz targets: what is checked in, and some thousand inputs made from it.
//!
//! The targets themselves are in `fuzz/`, where cargo-fuzz (and a nightly compiler) runs them for as long as
//! one likes; see `fuzz/README.md`. `SNBB_TEST_LONG=1` makes twenty times as many inputs here.
#![expect(clippy::disallowed_methods, reason = "lists the corpus")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestError, TestRunner};

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// Inputs made per target.
const INPUTS: u32 = 1500;

/// Files of the other tests that are worth beginning with.
const SEEDS: [(&str, &str); 7] = [
    ("squeue", "fixtures/slurm"),
    ("sacct", "fixtures/slurm"),
    ("squeue", "fixtures/slurm/words"),
    ("sacct", "fixtures/slurm/words"),
    ("config", "fixtures/config/valid"),
    ("config", "fixtures/config/invalid"),
    ("state_file", "fixtures/state"),
];

/// Is a change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
    /// Puts a part of another input in.
    Splice(Index, Index, Index, usize),
}

#[test]
fn each_target_has_a_file_and_a_corpus() {
    let named = |dir: &str| {
        let mut names: Vec<String> = fs::read_dir(root().join(dir))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                path.file_stem().unwrap().to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        names
    };
    let mut expected: Vec<String> = targets::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    expected.sort();
    assert_eq!(named("fuzz/fuzz_targets"), expected);
    assert_eq!(named("fuzz/corpus"), expected);
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for name in &expected {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

macro_rules! short_run {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            short_run(stringify!($name));
        }
    )*};
}

short_run! { squeue sacct sbatch array_ranges config marker sizes journal audit_log sessions_csv state_file }

fn short_run(target: &str) {
    let (_, body) = targets::TARGETS
        .into_iter()
        .find(|(name, _)| *name == target)
        .unwrap();
    let seeds = seeds(target);
    assert!(seeds.len() > 2, "{target} has no corpus");
    for (path, seed) in &seeds {
        // What a person needs to see it again.
        eprintln!("{}", path.display());
        body(seed);
    }
    let long = snbb_scheduler::base::sys::env("SNBB_TEST_LONG").is_some();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: if long { INPUTS * 20 } else { INPUTS },
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let inputs = (any::<Index>(), prop::collection::vec(edit(), 0..8));
    let result = runner.run(&inputs, |(seed, edits)| {
        let mut input = seed.get(&seeds).1.clone();
        for edit in edits {
            edit.apply(&mut input, &seeds);
        }
        body(&input);
        Ok(())
    });
    if let Err(TestError::Fail(why, (seed, edits))) = &result {
        let (path, bytes) = seed.get(&seeds);
        let mut input = bytes.clone();
        for edit in edits {
            edit.apply(&mut input, &seeds);
        }
        panic!(
            "{why}\nfrom {}: {:?}\n{edits:?}",
            path.display(),
            String::from_utf8_lossy(&input)
        );
    }
    result.unwrap();
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    // Bytes that mean something to one of the readers.
    let byte = prop_oneof![
        2 => any::<u8>(),
        3 => prop::sample::select(b"\0\n\r\t \"',;:|-_[]%.+*?{}#&<>!0123456789ABCnsu/\\\x1f\xff".to_vec()),
    ];
    let word = prop::sample::select(vec![
        "\u{241f}",
        "␟PENDING␟",
        "CANCELLED by 1",
        "_[1-5%2]",
        "+0",
        ".batch",
        "null",
        "~",
        "!!str ",
        "&a [*a, *a]",
        "- {name: a}\n",
        "**",
        "[!",
        "99999999999999999999",
        "4294967295",
        "\u{feff}",
        "\"crc\":\"",
        "{}",
        "9e99",
        "é",
        "\r\n",
        "\n\n",
        "snbb:p:1",
        "--comment=",
    ]);
    prop_oneof![
        4 => (at(), byte.clone()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (at(), prop::collection::vec(byte, 1..6)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        2 => (at(), word).prop_map(|(at, word)| Edit::Insert(at, word.as_bytes().to_vec())),
        2 => (at(), 1..40usize).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => (at(), 1..60usize).prop_map(|(at, count)| Edit::Repeat(at, count)),
        1 => at().prop_map(Edit::Cut),
        1 => (at(), at(), at(), 1..200usize)
            .prop_map(|(at, seed, from, count)| Edit::Splice(at, seed, from, count)),
    ]
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>, seeds: &[(PathBuf, Vec<u8>)]) {
        let place = |at: &Index, length: usize| at.index(length + 1);
        let length = input.len();
        match self {
            Self::Set(at, byte) => {
                if let Some(old) = input.get_mut(place(at, length)) {
                    *old = *byte;
                }
            }
            Self::Insert(at, bytes) => {
                let at = place(at, length);
                input.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = place(at, length);
                input.drain(at..(at + count).min(length));
            }
            Self::Repeat(at, count) => {
                let at = place(at, length);
                let part = input[at..(at + count).min(length)].to_vec();
                input.splice(at..at, part);
            }
            Self::Cut(at) => input.truncate(place(at, length)),
            Self::Splice(at, seed, from, count) => {
                let other = &seed.get(seeds).1;
                let from = place(from, other.len());
                let part = other[from..(from + count).min(other.len())].to_vec();
                let at = place(at, length);
                input.splice(at..at, part);
            }
        }
    }
}

/// Reads the corpus of a target, and the files of other tests that fit it.
fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dirs = SEEDS
        .iter()
        .filter(|(name, _)| *name == target)
        .map(|(_, dir)| root().join(dir))
        .chain([root().join("fuzz/corpus").join(target)]);
    let mut files: Vec<PathBuf> = dirs
        .flat_map(|dir| fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.metadata().unwrap().is_file())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
