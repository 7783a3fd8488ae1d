//! What the packages are made from fits together, as far as that shows without a release build.
//! `scripts/release --check` makes them and tries them in a bare system.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at the project's own files, and starts a script"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn at(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(at(path)).unwrap()
}

/// Returns the lines of a section of a TOML file.
fn section<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines()
        .skip_while(|line| *line != format!("[{name}]"))
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .collect()
}

/// A crate of polars that is not listed would be built for speed, at the price of megabytes.
#[test]
fn every_crate_of_polars_is_built_small() {
    let manifest = read("Cargo.toml");
    let small: BTreeSet<&str> = section(&manifest, "profile.release.package")
        .into_iter()
        .filter_map(|line| line.strip_suffix(" = { opt-level = \"s\" }"))
        .filter(|name| name.starts_with("polars"))
        .collect();
    let lock = read("Cargo.lock");
    let used: BTreeSet<&str> = lock
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .filter(|name| name.starts_with("polars"))
        .collect();
    assert_eq!(small, used);
}

#[test]
fn every_file_of_the_debian_package_has_a_source() {
    let manifest = read("Cargo.toml");
    let sources: Vec<&str> = manifest
        .lines()
        .skip_while(|line| *line != "assets = [")
        .skip(1)
        .take_while(|line| *line != "]")
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert!(sources.len() >= 8, "{sources:?}");
    let release = read("scripts/release");
    for source in sources {
        if source == "target/release/snbb-scheduler" {
            continue;
        }
        if let Some(made) = source.strip_prefix("target/packaging/") {
            let directory = made.split('/').next().unwrap();
            assert!(
                release.contains(&format!("$staging/{directory}")),
                "{source}"
            );
            continue;
        }
        let found = match source.split_once('*') {
            Some((directory, ending)) => std::fs::read_dir(at(directory))
                .unwrap()
                .any(|entry| entry.unwrap().path().to_str().unwrap().ends_with(ending)),
            None => at(source).exists(),
        };
        assert!(found, "{source}");
    }
}

#[test]
fn c2_pip_takes_the_wheel_for_newer_than_the_python_program() {
    // That one is 0.1.0, and pip leaves an equal version alone.
    let mut parts = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse::<u32>().unwrap());
    let version: [u32; 2] = [parts.next().unwrap(), parts.next().unwrap()];
    assert!(version >= [0, 2]);
    assert!(read("docs/migrating.md").contains("pip install --upgrade"));
}

/// pip's name, the crate's and the program's are one; the version is the crate's.
#[test]
fn the_wheel_is_described_as_the_crate_is() {
    let (manifest, project) = (read("Cargo.toml"), read("pyproject.toml"));
    let value = |lines: &[&str], key: &str| {
        lines
            .iter()
            .find_map(|line| line.strip_prefix(&format!("{key} = ")))
            .map(str::to_owned)
    };
    let package = section(&manifest, "package");
    let project_lines = section(&project, "project");
    for key in ["name", "license", "readme", "keywords"] {
        let expected = value(&package, key);
        assert!(expected.is_some(), "{key}");
        assert_eq!(value(&project_lines, key), expected, "{key}");
    }
    assert!(
        project.contains("dynamic = [\"version\"]") && value(&project_lines, "version").is_none()
    );
    assert!(at("python/snbb_scheduler/py.typed").exists() && at("LICENSE").exists());
    // The oldest pandas that is promised is the one that is tried.
    assert!(
        project.contains("pandas>=1.5") && read("scripts/release-tools").contains("pandas==1.5.*")
    );
}

#[test]
fn the_glibc_that_a_program_needs_is_read_from_its_symbols() {
    let needed = |arguments: &[&str]| -> Output {
        Command::new(at("scripts/glibc-needed"))
            .arg(assert_cmd::cargo::cargo_bin("snbb-scheduler"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = needed(&[]);
    if output.status.code() == Some(127) {
        eprintln!("SKIPPED: no readelf (binutils)");
        return;
    }
    let version = String::from_utf8(output.stdout).unwrap();
    let version = version.trim();
    assert!(version.starts_with("2."), "{version}");
    assert!(needed(&[version]).status.success());
    assert!(needed(&["2.99"]).status.success());
    // 2.9 is older than 2.17, whatever the alphabet says.
    let output = needed(&["2.9"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("more than 2.9:"),
        "{said}"
    );
    assert!(said.contains(&format!("GLIBC_{version}")), "{said}");
}
