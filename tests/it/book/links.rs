//! Every link between the pages leads to a file, and every `#...` to a heading of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::ROOT;
use super::blocks::pages;

/// Takes fenced blocks and code within lines away.
fn prose(page: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Odd parts between back-quotes are code.
            let parts = line.split('`').step_by(2);
            out.push_str(&parts.collect::<Vec<_>>().join("_"));
        }
        out.push('\n');
    }
    out
}

/// Returns the targets of `[...](target)`.
fn targets(page: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (at, line) in prose(page).lines().enumerate() {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            targets.push((at + 1, target.to_owned()));
        }
    }
    targets
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else {
            continue;
        };
        let text = heading.trim_start_matches('#').trim();
        let id: String = text
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        let mut unique = id.clone();
        let mut count = 0;
        while !anchors.insert(unique.clone()) {
            count += 1;
            unique = format!("{id}-{count}");
        }
    }
    anchors
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut count = 0;
    for (page, text) in pages() {
        let dir = Path::new(ROOT)
            .join(&page)
            .parent()
            .map(PathBuf::from)
            .unwrap_or_default();
        for (line, target) in targets(&text) {
            // A chapter that is not written yet, and other people's pages.
            if target.is_empty() || target.starts_with("http") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() {
                Path::new(ROOT).join(&page)
            } else {
                dir.join(path)
            };
            if !file.try_exists().unwrap() {
                broken.push(format!("{page}:{line}: {target}: there is no such file"));
            } else if !anchor.is_empty()
                && !anchors(&fs::read_to_string(&file).unwrap()).contains(anchor)
            {
                broken.push(format!("{page}:{line}: {target}: there is no such heading"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(count > 50, "{count}");
}

/// The book has every page, once; what is planned has no file yet.
#[test]
fn the_summary_lists_every_page() {
    let summary = fs::read_to_string(Path::new(ROOT).join("docs/SUMMARY.md")).unwrap();
    let mut listed: Vec<String> = targets(&summary)
        .into_iter()
        .map(|(_, target)| target)
        .filter(|target| !target.is_empty())
        .collect();
    listed.sort();
    let mut there: Vec<String> = pages()
        .into_iter()
        .filter_map(|(page, _)| page.strip_prefix("docs/").map(str::to_owned))
        .filter(|page| page != "SUMMARY.md")
        .collect();
    there.sort();
    assert_eq!(listed, there);
    // A chapter whose page has come in the meantime: `[Getting started]()` beside getting-started.md.
    for line in summary.lines().filter(|line| line.contains("]()")) {
        let title = line.split(['[', ']']).nth(1).unwrap_or_default();
        let page = format!("{}.md", title.to_lowercase().replace(' ', "-"));
        assert!(!there.contains(&page), "{page} is written: link it");
    }
}

#[test]
fn links_and_headings_are_read() {
    let page = "# A title, with `code` & more\n[x](a.md#b) `[no](c)`\n```\n[no](d)\n# no\n```\n## a\n## a\n![p](p.png)\n";
    let found: Vec<String> = targets(page)
        .into_iter()
        .map(|(_, target)| target)
        .collect();
    assert_eq!(found, ["a.md#b", "p.png"]);
    let anchors: Vec<String> = anchors(page).into_iter().collect();
    assert_eq!(anchors, ["a", "a-1", "a-title-with-code--more"]);
}
