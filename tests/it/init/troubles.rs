//! What `init` refuses or cannot do, and what it leaves then.

use super::*;

#[test]
fn nothing_is_overwritten_and_a_dry_run_writes_nothing() {
    let study = study();
    let pairs = roots(&study);
    let before = study.snapshot();
    let mut dry = arguments(&pairs);
    dry.push("--dry-run");
    let said = init(&study, &dry);
    assert_eq!(
        (said.code, study.snapshot() == before),
        (0, true),
        "{}",
        said.err
    );
    assert!(said.out.contains("\nprocedures:\n"));
    insta::assert_snapshot!("dry_run", beginning(&study, &said, &["would "]));

    study.write("site/scripts/example.sh", "mine");
    let before = study.snapshot();
    let said = init(&study, &arguments(&pairs));
    assert_eq!((said.code, study.snapshot() == before), (1, true));
    insta::assert_snapshot!("existing_script", problems(&study, &said.err));

    std::fs::remove_file(study.at("site/scripts/example.sh")).unwrap();
    assert_eq!(init(&study, &arguments(&pairs)).code, 0);
    // What would have been written is what was.
    assert_eq!(said_config(&study), study.read("site/config.yaml"));
    let before = study.snapshot();
    let said = init(&study, &arguments(&pairs));
    assert_eq!((said.code, study.snapshot() == before), (1, true));
    insta::assert_snapshot!("existing_configuration", problems(&study, &said.err));
}

fn said_config(study: &Study) -> String {
    let pairs = roots(study);
    let mut dry = arguments(&pairs);
    dry.push("--dry-run");
    init(study, &dry).out
}

#[test]
fn wrong_turns_are_told_with_the_way_out_and_leave_nothing() {
    let study = study();
    let at = |name: &str| study.at(name).display().to_string();
    study.write("file", "");
    let (dicom, bids) = (at("dicom"), at("bids"));
    let good = ["--dicom-root", &dicom, "--bids-root", &bids];
    let with = |more: &[&'static str]| -> Vec<String> {
        good.iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    };
    let plain =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let table: Vec<Vec<String>> = vec![
        plain(&[]),
        plain(&["--dicom-root", &at("dicm"), "--bids-root", &bids]),
        plain(&["--dicom-root", &at("file"), "--bids-root", &bids]),
        plain(&["--dicom-root", &dicom, "--bids-root", &at("no/where")]),
        plain(&["--bids-root", &bids]),
        with(&["--procedures", "fmripep"]),
        with(&["--partition", "a b"]),
        with(&["--project", "a b"]),
        with(&["--log-dir", "${NO_SUCH_THING}/x"]),
        with(&["--subject-col", "x"]),
        with(&["--executor", "slrm"]),
        with(&["--config", "x"]),
    ];
    let before = study.snapshot();
    let mut told = Vec::new();
    for words in table {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = init(&study, &words);
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        let shown = pretty(&study, &words.join(" "));
        // What there is of Slurm differs from machine to machine.
        let said = problems(&study, &said.err);
        let said: Vec<&str> = said
            .lines()
            .filter(|line| !line.starts_with("warning: sinfo"))
            .collect();
        told.push(format!("init {shown}\n{}\n", said.join("\n")));
        assert!(study.snapshot() == before, "{words:?} left something");
    }
    // A line of the configuration, which is not what this is about.
    let line = regex::Regex::new(r"yaml:\d+:\d+").unwrap();
    let told = told.join("\n");
    insta::assert_snapshot!("wrong_options", line.replace_all(&told, "yaml:[line]"));
    // Where the study is set up.
    let mut told = Vec::new();
    for (dir, code) in [("dicom", 2), ("bids/x", 2), ("file/x", 1), ("file", 1)] {
        let mut words = vec!["init", &dicom];
        let dir = at(dir);
        words[1] = &dir;
        words.extend(good);
        let said = study.call(&words);
        assert_eq!(said.code, code, "{dir}: {}", said.err);
        told.push(problems(&study, &said.err));
        assert!(study.snapshot() == before, "{dir}");
    }
    insta::assert_snapshot!("wrong_directories", told.join("\n"));
}

/// Runs the program where a small file system stands at the directory of the study; none where that is not allowed.
fn mounted(study: &Study, options: &str, before: &str) -> Option<(Option<i32>, String, String)> {
    let works = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
        .output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("\n=== SKIPPED a test that mounts a file system ===");
        return None;
    }
    let pairs = roots(study);
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let site = study.at("site");
    std::fs::create_dir_all(&site).unwrap();
    let script = format!(
        "mount -t tmpfs -o {options} none \"$SITE\" || exit 99; cd \"$SITE\"; {before}\n\"$P\" init \"$SITE\" \"$@\"; code=$?; \
         find \"$SITE\" -mindepth 1; exit $code"
    );
    let output = Command::new("unshare")
        .args(["--mount", "bash", "-c", &script, "bash"])
        .args(arguments(&pairs))
        .env("SITE", &site)
        .env("P", program)
        .output()
        .unwrap();
    Some((
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

#[test]
fn a_read_only_directory_and_a_full_disk_are_told_and_left_as_they_are() {
    let study = study();
    let Some((code, out, err)) = mounted(&study, "ro,size=1m", ":") else {
        return;
    };
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    insta::assert_snapshot!("read_only", problems(&study, &err));
    let fill = "dd if=/dev/zero of=fill bs=4096 2>/dev/null; :";
    let (code, out, err) = mounted(&study, "size=64k", fill).unwrap();
    let site = study.at("site").display().to_string();
    assert_eq!((code, out), (Some(1), format!("{site}/fill\n")), "{err}");
    insta::assert_snapshot!("full_disk", problems(&study, &err));
    // Neither were directories elsewhere left behind.
    assert!(study.at("site").read_dir().unwrap().next().is_none());
}

#[test]
fn a_slurm_that_does_not_answer_is_no_obstacle() {
    let mut study = study();
    study.script("bin/sbatch", "exit 1");
    study.script(
        "bin/sinfo",
        "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1",
    );
    study.path = vec![study.at("bin")];
    let said = init(&study, &arguments(&roots(&study)));
    assert_eq!(said.code, 0, "{}", said.err);
    insta::assert_snapshot!(problems(&study, &said.err));
    let config = study.read("site/config.yaml");
    assert!(config.contains("\nexecutor: slurm\n"), "{config}");
    // cron does not look there.
    let line = format!("\nslurm_bin_dir: {}\n", study.at("bin").display());
    assert!(config.contains(&line), "{config}");
    assert!(Path::new(&study.at("site/state")).is_dir());
}
