//! `docs/markers.md`: each recipe is judged by the program's own evaluator, with the files that stand below it.

use std::fs;
use std::path::Path;

use snbb_scheduler::gather::completion::probe::Probe;
use snbb_scheduler::gather::completion::{Completion, Completions as _};
use snbb_scheduler::model::bids::{SessionLabel, SubjectLabel};
use snbb_scheduler::model::procedure::Scope;

use super::site::load;

/// Is a fenced block: the words after the fence, and the lines.
struct Block<'a> {
    kind: &'a str,
    text: &'a str,
}

fn blocks(section: &str) -> Vec<Block<'_>> {
    section
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.split_once('\n'))
        .map(|(kind, text)| Block { kind, text })
        .collect()
}

/// Lays down one line of a block of files.
fn lay_down(line: &str, output: &Path, bids: &Path, derivatives: &Path) {
    let (base, rest) = match line.split_once(": ") {
        Some(("bids", rest)) => (bids, rest),
        Some(("derivatives", rest)) => (derivatives, rest),
        _ => (output, line),
    };
    let (path, what) = rest.split_once("  ").unwrap_or((rest, ""));
    let what = what.trim();
    let file = base.join(path);
    if path.ends_with('/') {
        fs::create_dir_all(file).unwrap();
        return;
    }
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let size = |digits: &str, unit: usize| vec![b'x'; digits.parse::<usize>().unwrap() * unit];
    let content = match what {
        "" => b"x".to_vec(),
        "(empty)" => Vec::new(),
        _ if what.starts_with('"') => serde_json::from_str::<String>(what).unwrap().into_bytes(),
        _ => match what.split_at(what.len() - 1) {
            (digits, "K") => size(digits, 1 << 10),
            (digits, "M") => size(digits, 1 << 20),
            _ => panic!("{line}"),
        },
    };
    fs::write(file, content).unwrap();
}

fn judged(settings: &str, files: &str) -> Completion {
    let dir = tempfile::tempdir().unwrap();
    let place = match settings.contains("output_dir:") {
        true => "",
        false => "    output_dir: p\n",
    };
    let settings: String = settings
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    let config = load(
        dir.path(),
        &format!("  - name: p\n{place}    script: p.sh\n{settings}"),
    );
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let id = config.procedures.find("p").unwrap();
    let (part, session) = match config.procedures.get(id).scope {
        Scope::Session => ("sub-01/ses-01", SessionLabel::new("ses-01").unwrap()),
        Scope::Subject => ("sub-01", SessionLabel::none()),
    };
    let derivatives = dir.path().join("derivatives");
    let output = derivatives.join("p").join(part);
    let bids = dir.path().join("bids").join(part);
    for line in files.lines() {
        lay_down(line, &output, &bids, &derivatives);
    }
    let subject = SubjectLabel::new("sub-01").unwrap();
    let probe = Probe::new(&config).unwrap();
    probe.for_subject(&subject).completion(id, &session)
}

#[test]
fn each_recipe_does_what_it_says() {
    let page = include_str!("../../../docs/markers.md");
    let recipes: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!((10..=20).contains(&recipes.len()), "{}", recipes.len());
    for recipe in recipes {
        let title = recipe.lines().next().unwrap();
        let all = blocks(recipe);
        let (settings, files) = all.split_first().unwrap();
        assert_eq!(settings.kind, "yaml", "{title}");
        let mut seen = Vec::new();
        for block in files {
            assert_eq!(block.kind, "files", "{title}");
            let (verdict, tree) = block.text.split_once(":\n").unwrap();
            let expected = match verdict {
                "complete" => Completion::Complete,
                "incomplete" => Completion::Incomplete,
                "not applicable" => Completion::NotApplicable,
                other => panic!("{title}: {other}"),
            };
            assert_eq!(judged(settings.text, tree), expected, "{title}:\n{tree}");
            seen.push(verdict);
        }
        for verdict in ["complete", "incomplete"] {
            assert!(seen.contains(&verdict), "{title}: no {verdict}");
        }
    }
}
