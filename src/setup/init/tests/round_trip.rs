//! A written configuration contains the given answers.

use super::*;

/// Parts of paths with a special meaning in YAML, shells or the loader.
fn part() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        " ",
        "a b",
        "it's",
        "\"q\"",
        "a: b",
        "a #b",
        "${HOME}",
        "$HOME",
        "${",
        "}",
        "~",
        "~user",
        "#x",
        "- x",
        "*x",
        "&x",
        "!x",
        "%x",
        "@x",
        "`x`",
        "{a: b}",
        "[a]",
        "null",
        "~x",
        "yes",
        "1e3",
        "0x1",
        "é",
        "日本",
        "🧠",
        "a\\b",
        "\\n",
        "?",
        ": ",
        "|",
        ">",
        "<<",
        "---",
        "...",
        "\u{feff}",
        "a ",
        " a",
        "%d",
        "0",
        "${SNBB_DOLLAR:-$}{x}",
        "$${x}",
    ])
    .prop_map(str::to_owned);
    let any = "[^/\\x00-\\x1f\\x7f-\\x{9f}\\x{2028}\\x{2029}]{1,12}"
        .prop_filter("is a name", |name| !matches!(name.as_str(), "." | ".."));
    prop_oneof![special, any, "[a-z]{1,8}"]
}

fn path() -> impl Strategy<Value = PathBuf> {
    (any::<bool>(), prop::collection::vec(part(), 1..4)).prop_map(|(is_below, parts)| {
        let mut path = PathBuf::from(if is_below { "/study" } else { "/" });
        path.extend(parts);
        path
    })
}

fn word() -> impl Strategy<Value = Option<String>> {
    let special = prop::sample::select(vec![
        "null", "no", "1", "~", "a:b", "#a", "a,b", "*", "it's", "é", "-x",
    ])
    .prop_map(str::to_owned);
    prop::option::of(prop_oneof![special, "[a-z][a-z0-9_-]{0,8}"])
}

/// Source of sessions, root of DICOM files, and whether subjects have no sessions.
fn any_sessions() -> impl Strategy<Value = (SessionSource, Option<PathBuf>, bool)> {
    let column = || "[ -~]{1,10}".prop_filter("is not blank", |text| !text.trim().is_empty());
    prop_oneof![
        (path(), any::<bool>()).prop_map(|(root, sessionless)| (
            SessionSource::Dicom,
            Some(root),
            sessionless
        )),
        Just((SessionSource::Bids, None, false)),
        (path(), column(), column(), prop::option::of(path())).prop_map(
            |(file, subject_col, session_col, dicom_root)| {
                let source = SessionSource::Csv {
                    file,
                    subject_col,
                    session_col,
                };
                (source, dicom_root, false)
            }
        ),
    ]
}

fn any_jobs() -> impl Strategy<Value = Jobs> {
    prop_oneof![
        Just(Jobs::Local),
        (word(), word(), prop::option::of(path()), any::<bool>()).prop_map(
            |(partition, account, bin_dir, accounting)| {
                Jobs::Slurm {
                    partition,
                    account,
                    bin_dir,
                    accounting,
                }
            }
        ),
    ]
}

fn any_answers() -> impl Strategy<Value = Answers> {
    let places = (path(), path(), path(), path());
    let rest = (
        prop::option::of("[A-Za-z0-9_.-]{1,32}"),
        prop::option::of(0..512u32),
        prop::collection::vec(any::<bool>(), 5),
    );
    (any_sessions(), places, any_jobs(), rest).prop_map(
        |(
            (sessions, dicom_root, sessionless),
            (bids_root, derivatives_root, state_file, log_dir),
            jobs,
            (project, cpus, picks),
        )| {
            let names: Vec<String> = catalogue()
                .iter()
                .zip(picks)
                .filter(|(_, is_picked)| *is_picked)
                .map(|(app, _)| app.name.to_owned())
                .collect();
            let choice = choose(&names, &catalogue(), true).unwrap_or_default();
            Answers {
                sessions,
                dicom_root,
                sessionless,
                bids_root,
                derivatives_root,
                describes: false,
                state_file,
                log_dir,
                project,
                jobs,
                mem: cpus.map(|_| MemSize::parse("32G").unwrap()),
                cpus,
                apps: choice.apps,
            }
        },
    )
}

proptest! {
    #[test]
    fn answers_are_read_back_unchanged(answers in any_answers()) {
        let dir = Path::new("/study");
        let text = files(&answers, dir).unwrap().remove(0).text;
        let config = match load(&text, dir) {
            Ok(config) => config,
            // Two of the paths may be the same file, which is an error.
            Err(error) => {
                let is_same_file = error.to_string().contains("same");
                prop_assert!(is_same_file, "{error}\n{text}");
                return Ok(());
            }
        };
        prop_assert_eq!(&config.bids_root, &answers.bids_root);
        prop_assert_eq!(&config.derivatives_root, &answers.derivatives_root);
        prop_assert_eq!(&config.state_file, &answers.state_file);
        prop_assert_eq!(config.slurm.log_dir.as_ref(), Some(&answers.log_dir));
        prop_assert_eq!(&config.project, &answers.project);
        prop_assert_eq!(config.script_dir, Some(dir.join(SCRIPTS)));
        prop_assert_eq!(config.slurm.cpus_per_task, answers.cpus.filter(|cpus| *cpus > 0));
        prop_assert_eq!(&config.slurm.mem, &answers.mem);
        prop_assert_eq!(&config.sessions, &answers.sessions);
        prop_assert_eq!(config.sessionless, answers.sessionless);
        if let Some(root) = &answers.dicom_root {
            prop_assert_eq!(&config.dicom_root, root);
        }
        match &answers.jobs {
            Jobs::Local => prop_assert_eq!(config.executor, ExecutorKind::Local),
            Jobs::Slurm { partition, account, bin_dir, accounting } => {
                prop_assert_eq!(config.executor, ExecutorKind::Slurm);
                prop_assert_eq!(&config.slurm.partition, partition);
                prop_assert_eq!(&config.slurm.account, account);
                prop_assert_eq!(&config.slurm.bin_dir, bin_dir);
                prop_assert_eq!(config.slurm.accounting, *accounting);
            }
        }
    }
}
