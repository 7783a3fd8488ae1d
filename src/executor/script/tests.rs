use proptest::prelude::*;

use super::*;

fn write(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "#!/bin/sh\n").unwrap();
}

#[test]
fn the_first_place_with_the_script_wins() {
    let dir = tempfile::tempdir().unwrap();
    let [scripts, config, bin] = ["scripts", "config", "bin"].map(|name| dir.path().join(name));
    let dirs = [scripts.clone(), config.clone()];
    let find = |script: &str| find_script(script, &dirs, std::slice::from_ref(&bin)).ok();

    write(&bin.join("a.sh"));
    assert_eq!(find("a.sh"), Some(bin.join("a.sh")));
    write(&config.join("a.sh"));
    assert_eq!(find("a.sh"), Some(config.join("a.sh")));
    write(&scripts.join("a.sh"));
    assert_eq!(find("a.sh"), Some(scripts.join("a.sh")));
    let absolute = bin.join("a.sh");
    assert_eq!(find(absolute.to_str().unwrap()), Some(absolute));

    write(&config.join("sub/b.sh"));
    write(&bin.join("sub/c.sh"));
    assert_eq!(find("sub/b.sh"), Some(config.join("sub/b.sh")));
    assert_eq!(
        find("sub/c.sh"),
        None,
        "only bare names are searched in PATH"
    );
}

#[test]
fn a_script_that_cannot_be_read_is_not_replaced_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let [scripts, config] = ["scripts", "config"].map(|name| dir.path().join(name));
    write(&config.join("a.sh"));
    std::fs::create_dir(&scripts).unwrap();
    // Root may read everything, but not this.
    std::os::unix::fs::symlink("a.sh", scripts.join("a.sh")).unwrap();
    let error = find_script("a.sh", &[scripts, config], &[]).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("cannot read script /"), "{error}");
}

#[test]
fn d30_the_error_lists_the_places_and_obstacles() {
    let dir = tempfile::tempdir().unwrap();
    let scripts = dir.path().join("scripts");
    std::fs::create_dir_all(scripts.join("a.sh")).unwrap();
    let error = find_script(
        "a.sh",
        &[scripts],
        &search_path(Some(OsStr::new("/nowhere:/else::rel"))),
    )
    .unwrap_err()
    .to_string();
    let places = format!("{}/scripts/a.sh (not a file), PATH", dir.path().display());
    assert_eq!(
        error,
        format!("script 'a.sh' was not found (looked in {places})")
    );
}

#[test]
fn interpreter_lines_are_split_as_the_kernel_does() {
    let table: &[(&[u8], Option<&[&str]>)] = &[
        (b"#!/bin/bash\necho", Some(&["/bin/bash"])),
        (
            b"#! /usr/bin/env -S bash -e \n",
            Some(&["/usr/bin/env", "-S bash -e"]),
        ),
        (b"#!\t/bin/sh\t-x", Some(&["/bin/sh", "-x"])),
        (b"#!\n", None),
        (b"#!bash\n", None),
        (b"", None),
        (b"echo\n#!/bin/sh\n", None),
        (b"#!/bin/\xff\n", None),
        (b"\x7fELF", None),
    ];
    for (text, expected) in table {
        let expected = expected.map(|words| words.iter().map(|w| (*w).to_owned()).collect());
        assert_eq!(interpreter(text), expected, "{}", text.escape_ascii());
    }
}

#[test]
fn directives_after_the_first_command_are_ignored() {
    let script = "#!/bin/bash\n#SBATCH --mem=1G\n\n# note\n  #SBATCH --indented\n##SBATCH --off\n\
        #SBATCHES\nmodule load x\n#SBATCH --mem=64G\ncat <<'EOF' >job.sh\n#SBATCH --inner\nEOF\n\
        x=$((1<<2))\n#SBATCH\n";
    let found = ignored_directives(script.as_bytes());
    let found: Vec<_> = found.iter().map(|(n, text)| (*n, text.as_str())).collect();
    assert_eq!(
        found,
        [
            (5, "#SBATCH --indented"),
            (9, "#SBATCH --mem=64G"),
            (14, "#SBATCH")
        ]
    );
    assert_eq!(ignored_directives(b"\xff\n#SBATCH --x").len(), 1);
    assert_eq!(ignored_directives(b""), []);
}

#[test]
fn scripts_that_sbatch_refuses_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sh");
    let read = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        Script::read(&path)
    };
    assert!(matches!(
        read(b"echo\n"),
        Err(ScriptError::NoInterpreter(_))
    ));
    assert!(matches!(
        read(b"#!/bin/sh\r\n"),
        Err(ScriptError::DosLineBreaks(_))
    ));
    let mut large = b"#!/bin/sh\n".to_vec();
    large.resize(MAX_SIZE as usize, b'#');
    assert!(read(&large).is_ok());
    large.push(b'#');
    assert!(matches!(read(&large), Err(ScriptError::TooLarge(_))));
    assert!(matches!(
        Script::read(&dir.path().join("none")),
        Err(ScriptError::Read(_))
    ));
}

#[test]
fn lines_after_the_first_command_are_ignored() {
    let script = "#!/bin/bash\n#SBATCH --mem=4G\n\n  # a comment\n ##SBATCH -x\n#SBATCH -t 10\n\t\nset -e\n#SBATCH --wait\n";
    let found: Vec<(usize, String)> = options(script.as_bytes())
        .iter()
        .map(|argument| (argument.at, argument.word.clone()))
        .collect();
    assert_eq!(found, [(2, "--mem=4G".to_owned()), (6, "-t".to_owned())]);
}

#[test]
fn words_are_split_as_sbatch_splits_them() {
    for (line, words) in [
        ("#SBATCH", &[][..]),
        ("#SBATCH--mem=4G", &["--mem=4G"]),
        (
            "#SBATCH -J a\t--time=1:00 # --wait",
            &["-J", "a", "--time=1:00"],
        ),
        (
            r#"#SBATCH --comment="a 'b' # c" -n2"#,
            &["--comment=a 'b' # c", "-n2"],
        ),
        (r"#SBATCH --job-name=a\ b\#c", &["--job-name=a b#c"]),
        ("#SBATCH --comment='open  end", &["--comment=open  end"]),
        ("#SBATCH -o ''", &["-o"]),
    ] {
        let text = line.strip_prefix("#SBATCH").unwrap();
        assert_eq!(super::words(text), words, "{line}");
    }
}

#[test]
fn attack_options_that_a_script_must_not_have_are_found() {
    for (options, found) in [
        ("--wait", Some("--wait")),
        ("-W", Some("-W")),
        ("-HW", Some("-HW")),
        ("--time=1:00 -W", Some("-W")),
        ("-J x -W", Some("-W")),
        ("--exclusive --wait", Some("--wait")),
        ("--test-only", Some("--test-only")),
        ("--test", Some("--test")),
        ("-QJx", Some("-QJx")),
        ("--quiet", Some("--quiet")),
        ("-V", Some("-V")),
        ("--uid=1000", Some("--uid=1000")),
        ("--mem=4G --gid 1000", Some("--gid")),
        ("--wait-all-nodes=1", None),
        ("-JW", None),
        ("-J -W", None),
        ("--wckey=wait", None),
        ("--comment='--wait'", None),
        ("# --wait", None),
        ("-p WQ -w node1", None),
        ("--mem=4G", None),
    ] {
        let script = format!("#!/bin/sh\n#SBATCH {options}\ntrue\n");
        let unfit = unfit(script.as_bytes());
        assert_eq!(
            unfit.as_ref().map(|(_, option, _)| option.as_str()),
            found,
            "{options}"
        );
        assert!(unfit.is_none_or(|(line, ..)| line == 2));
    }
    assert_eq!(unfit(b"#!/bin/sh\necho\n#SBATCH --wait\n"), None);
}

#[test]
fn options_are_read_in_every_spelling() {
    let script = b"#!/bin/bash\n#SBATCH --mem=4G -p long\n#SBATCH -t 1:00:00 --array 1-5\n#SBATCH -a1-5 -H\n\
        #SBATCH -J -p --nice=-a --mem-per-cpu=1G\ntrue\n#SBATCH -p late\n";
    let found: Vec<(usize, &str, String)> = options(script)
        .iter()
        .map(|argument| {
            let name = argument.option.map_or("", |option| option.long);
            (
                argument.at,
                name,
                argument.value.clone().unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        (2, "mem", "4G"),
        (2, "partition", "long"),
        (3, "time", "1:00:00"),
        (3, "array", "1-5"),
        (4, "array", "1-5"),
        (4, "hold", ""),
        (5, "job-name", "-p"),
        (5, "nice", "-a"),
        (5, "mem-per-cpu", "1G"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(line, name, value)| (*line, *name, (*value).to_owned()))
        .collect();
    assert_eq!(found, expected);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut script = b"#SBATCH ".to_vec();
        script.extend(bytes);
        let _ = unfit(&script);
    }
}
