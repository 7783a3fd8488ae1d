//! Which file is read, from where, and what if it cannot be.

use super::*;

/// Jobs are told of the roots as text: another text would be another place.
#[test]
fn a_root_that_is_no_utf_8_is_refused() {
    use std::os::unix::ffi::OsStringExt as _;
    let env = |name: &str| {
        let odd = || OsString::from_vec(b"/data/\xff".to_vec());
        (name == "ODD").then(odd).or_else(|| env(name))
    };
    let mut told = Vec::new();
    for key in ["dicom_root", "bids_root", "derivatives_root"] {
        let text = format!("{key}: ${{ODD}}/x\n");
        let file = Path::new("/site/c.yaml");
        let overrides = Overrides::default();
        let read = load::interpret(
            text.as_bytes(),
            Some(file),
            false,
            &env,
            &overrides,
            Path::new("/cwd"),
        );
        let error = read.expect_err(key).to_string();
        told.push(error);
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn without_a_file_the_defaults_apply() {
    let (config, _) = load(None, &env, &Overrides::default(), Path::new("/cwd")).unwrap();
    assert_eq!(config.file, None);
    assert!(config.script_dirs().is_empty());
    let nothing = interpret("c.yaml", b"{}").unwrap();
    assert!(nothing.warnings.is_empty());
    let lines = |config: &Config| -> Vec<String> {
        let text = describe(config);
        let lines = text
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("warning: "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(lines(&nothing), lines(&config));
}

/// A file that was cut to nothing is not a wish for all the defaults.
#[test]
fn a_file_without_content_is_an_error() {
    for text in [
        "",
        "\n\n",
        "# dicom_root: /a\n",
        "---\n",
        "null\n",
        "~",
        "\u{feff}",
        "--- # a\n...\n",
    ] {
        let error = interpret("c.yaml", text.as_bytes())
            .expect_err(text)
            .to_string();
        insta::assert_snapshot!("no-content", error);
    }
}

#[test]
fn the_command_line_overrides_the_log_directory_relative_to_where_one_is() {
    for (given, expected) in [
        (None, Some("/site/logs")),
        (Some("here"), Some("/cwd/here")),
        (Some("/abs"), Some("/abs")),
        (Some(""), None),
    ] {
        let overrides = Overrides {
            slurm_log_dir: given.map(PathBuf::from),
            ..Overrides::default()
        };
        let file = Path::new("/site/c.yaml");
        let text = b"slurm_log_dir: logs";
        let config =
            load::interpret(text, Some(file), false, &env, &overrides, Path::new("/cwd")).unwrap();
        assert_eq!(config.slurm.log_dir.as_deref(), expected.map(Path::new));
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why_and_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("large.yaml"), vec![b'#'; 2 << 20]).unwrap();
    let load = |path: &Path| load(Some(path), &env, &Overrides::default(), dir.path()).unwrap_err();
    let mut told = Vec::new();
    for path in [
        at("none.yaml"),
        PathBuf::from("none.yaml"),
        dir.path().to_path_buf(),
        at("large.yaml/x"),
        at("large.yaml"),
    ] {
        let error = load(&path);
        let shown = format!("{error}\nhint: {}\n", error.hint.as_ref().unwrap());
        told.push(shown.replace(dir.path().to_str().unwrap(), "[dir]"));
    }
    insta::assert_snapshot!(told.concat());
}

#[test]
fn relative_paths_are_relative_to_the_file_not_to_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("site/conf")).unwrap();
    fs::write(
        root.join("site/conf/c.yaml"),
        "bids_root: ../bids\ndicom_root: dicom\n",
    )
    .unwrap();
    let file = Some(Path::new("conf/c.yaml"));
    let (config, _) = load(file, &env, &Overrides::default(), &root.join("site")).unwrap();
    assert_eq!(config.bids_root, root.join("site/bids"));
    assert_eq!(config.dicom_root, root.join("site/conf/dicom"));
    assert_eq!(config.script_dirs(), [root.join("site/conf")]);
}

#[test]
fn the_file_is_chosen_by_flag_then_by_environment() {
    let variable = |value: &'static str| {
        move |name: &str| (name == "SNBB_CONFIG").then(|| OsString::from(value))
    };
    let flag = Some(PathBuf::from("a"));
    assert_eq!(load::choose(flag.clone(), &variable("b")), flag);
    assert_eq!(load::choose(None, &variable("b")), Some(PathBuf::from("b")));
    assert_eq!(load::choose(None, &variable("")), None);
    assert_eq!(load::choose(None, &|_| None), None);
}

#[test]
fn e13_memory_is_asked_for_in_one_way() {
    let text = |keys: &str| {
        format!("slurm_mem: 8G\nprocedures: [{{name: a, output_dir: a, script: a.sh, {keys}}}]\n")
    };
    for (keys, both) in [
        (
            "mem: 4G, sbatch_args: [--mem-per-cpu=1G]",
            Some(("mem", "mem-per-cpu")),
        ),
        (
            "sbatch_args: [--mem-per-gpu, 1G]",
            Some(("mem", "mem-per-gpu")),
        ),
        (
            "mem: '', sbatch_args: [--mem-per-g=1G, --mem-per-cpu=1G]",
            Some(("mem-per-cpu", "mem-per-gpu")),
        ),
        ("mem: '', sbatch_args: [--mem-per-cpu=1G]", None),
        ("mem: 4G, sbatch_args: [--mem=8G, --mem-bind=local]", None),
    ] {
        let found = problems(&text(keys));
        match both {
            None => assert_eq!(found, [""; 0], "{keys}"),
            Some((one, other)) => {
                assert_eq!(found.len(), 1, "{found:?}");
                let part = format!("--{one} and --{other} exclude each other");
                assert!(found[0].contains(&part), "{found:?}");
            }
        }
    }
}

#[test]
fn weak_slurm_is_not_to_restart_what_the_retry_rules_restart() {
    let no_requeue = |keys: &str| {
        let text = format!("procedures: [{{name: a, output_dir: a, script: a.sh, {keys}}}]\n");
        let config = interpret("c.yaml", text.as_bytes()).unwrap();
        let (_, procedure) = config.procedures.iter().next().unwrap();
        procedure.resources.no_requeue
    };
    let retry = "retry: {on: [node_fail, preempted]}";
    assert!(no_requeue(retry));
    assert!(!no_requeue(&format!("{retry}, sbatch_args: [--requeue]")));
    assert!(!no_requeue("retry: {on: [node_fail]}"));
    assert!(!no_requeue("retry: off"));
}
