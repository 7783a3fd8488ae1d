//! The HTML page of the audit: its size, and how it behaves in a real browser.
//!
//! Without Chromium and `scripts/python-env page` (Playwright, axe) the second part says SKIPPED, loudly.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a browser, and looks for one"
)]

mod large;

use std::path::{Path, PathBuf};
use std::process::Command;

use snbb_scheduler::show::audit::Report;
use snbb_scheduler::show::audit::html::render;

use crate::python::environment;

/// The largest study that the page must be good for.
const SESSIONS: usize = 5000;

#[test]
fn a_large_study_fits() {
    let mut report = large::report(SESSIONS);
    large::tell_of_all(&mut report);
    let start = std::time::Instant::now();
    let page = render(&report);
    let time = start.elapsed().as_millis();
    println!("{SESSIONS} sessions: {} bytes in {time} ms", page.len());
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
}

/// Pictures of the page are kept if `SNBB_TEST_PAGE_OUT` names a directory for them.
/// One of them is `docs/images/audit-page.png`.
#[test]
fn people_use_it_in_a_browser() {
    let Some((python, chromium)) = browser() else {
        eprintln!("SKIPPED: no Chromium, or no Python with Playwright (scripts/python-env page)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = |name: &str, report: &Report| {
        let path = dir.path().join(name);
        std::fs::write(&path, render(report)).unwrap();
        path
    };
    let large = page("large.html", &large::report(SESSIONS));
    let mut small = large::report(60);
    let plain = page("plain.html", &small);
    large::spoil(&mut small);
    let hostile = page("hostile.html", &small);
    let mut command = Command::new(python);
    command
        .arg("tests/it/page/drive.py")
        .args([&chromium, &large, &plain, &hostile]);
    let out = std::env::var_os("SNBB_TEST_PAGE_OUT");
    command.args(&out);
    let output = command.output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    if let Some(out) = out {
        for file in [large, plain, hostile] {
            let name = file.file_name().unwrap();
            std::fs::copy(&file, Path::new(&out).join(name)).unwrap();
        }
    }
}

#[test]
fn d11_the_page_fits_a_phone_a_tablet_and_a_laptop() {
    let Some((python, chromium)) = browser() else {
        eprintln!("SKIPPED: no Chromium, or no Python with Playwright (scripts/python-env page)");
        return;
    };
    let mut report = large::report(60);
    report.study.config = Some(format!(
        "/data/{}/config.yaml",
        "study_of_long_names".repeat(4)
    ));
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    std::fs::write(&page, render(&report)).unwrap();
    let output = Command::new(python)
        .arg("tests/it/page/widths.py")
        .args([&chromium, &page])
        .args(std::env::var_os("SNBB_TEST_PAGE_OUT"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

/// Returns a Python with Playwright, and Chromium. None: one of them is missing.
fn browser() -> Option<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH")?;
    let chromium = std::env::split_paths(&path)
        .flat_map(|dir| {
            ["chromium", "chromium-browser", "google-chrome"].map(|name| dir.join(name))
        })
        .find(|program| program.is_file())?;
    Some((environment("page")?, chromium))
}
