use super::super::{Finding, testing};
use super::*;
use crate::setup::catalogue::{app, apps};

/// Findings about a script of a procedure in this configuration.
fn judged(config: &str, script: &[u8], mode: u32) -> Vec<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let config = testing::procedure(config, "");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("prep.sh");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    let (_, procedure) = config.procedures.iter().next().unwrap();
    testing::judged(|out| judge(&config, procedure, &path, out.about(TOPIC, "prep")))
}

#[test]
fn a_good_script_is_one_line() {
    for (config, script) in [
        ("", "#!/bin/sh\n#SBATCH --mem=1G\ntrue\n"),
        ("executor: local\n", "#!/bin/sh\ntrue\n#SBATCH --wait\n"),
    ] {
        let findings = judged(config, script.as_bytes(), 0o644);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(findings[0].level, Level::Ok);
        assert!(findings[0].text.contains("prep.sh"), "{findings:#?}");
    }
}

#[test]
fn each_problem_is_a_finding() {
    let local = "executor: local\n";
    let large = [b"#!/bin/sh\n".to_vec(), vec![b'#'; 4 << 20]].concat();
    for (config, script, mode, level, part) in [
        (
            "",
            &b"true\n"[..],
            0o644,
            Level::Error,
            "does not begin with '#!'",
        ),
        ("", b"#!/bin/sh\r\n", 0o644, Level::Error, "DOS line breaks"),
        ("", &large, 0o644, Level::Error, "larger than"),
        (
            "",
            b"#!/bin/sh\n#SBATCH --wait\n",
            0o644,
            Level::Error,
            "'#SBATCH --wait' in line 2",
        ),
        (
            "",
            b"#!/bin/sh\nmodule load x\n#SBATCH --mem=64G\n",
            0o644,
            Level::Warning,
            "line 3: #SBATCH --mem=64G",
        ),
        ("", b"#!/no/zsh\n", 0o644, Level::Warning, "/no/zsh"),
        (local, b"#!/no/zsh\n", 0o644, Level::Error, "/no/zsh"),
        (
            local,
            b"#!/bin/sh\nIMAGE=/no/x.sif\n",
            0o644,
            Level::Warning,
            "/no/x.sif (IMAGE)",
        ),
        ("", b"#!/bin/sh\n", 0o666, Level::Warning, "every user"),
    ] {
        let findings = judged(config, script, mode);
        testing::one(&findings, level, part);
        assert_eq!(findings.len(), 1);
    }
    let config = testing::procedure("", "");
    let (_, procedure) = config.procedures.iter().next().unwrap();
    let findings = testing::judged(|out| judge(&config, procedure, Path::new("/no"), out));
    testing::one(&findings, Level::Error, "cannot read script");
}

#[test]
fn the_programs_of_the_first_line_are_found() {
    let words = |line: &[&str]| line.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    for (line, expected) in [
        (&["/bin/bash"][..], (Some("/bin/bash"), None)),
        (&["/bin/bash", "-e"], (Some("/bin/bash"), None)),
        (
            &["/usr/bin/env", "python3"],
            (Some("/usr/bin/env"), Some("python3")),
        ),
        (
            &["/usr/bin/env", "-S LC_ALL=C bash -e"],
            (Some("/usr/bin/env"), Some("bash")),
        ),
        (&["/usr/bin/env"], (Some("/usr/bin/env"), None)),
        (&[], (None, None)),
    ] {
        let line = words(line);
        let found = programs(&line);
        assert_eq!(found, expected);
    }
}

#[test]
fn two_conflicting_memory_options_are_an_error() {
    for (script, sbatch_args, mem, both) in [
        (
            "#SBATCH --mem-per-cpu=1G",
            "--nice=1",
            Some("4G"),
            Some(("mem-per-cpu", "mem")),
        ),
        (
            "#SBATCH --mem=1G",
            "--mem-per-gpu=1G",
            None,
            Some(("mem", "mem-per-gpu")),
        ),
        (
            "#SBATCH --mem=1G --mem-per-cpu=1G",
            "-n1",
            None,
            Some(("mem", "mem-per-cpu")),
        ),
        ("#SBATCH --mem=1G", "-n1", Some("4G"), None),
        ("#SBATCH --mem-per-cpu=1G", "--mem-per-cpu=2G", None, None),
    ] {
        let resources = Resources {
            mem: mem.and_then(|mem| MemSize::parse(mem).ok()),
            sbatch_args: Arguments::from_iter([sbatch_args.to_owned()]),
            ..Resources::default()
        };
        let script = format!("#!/bin/sh\n{script}\n");
        let asked = script::options(script.as_bytes());
        let findings = testing::judged(|out| {
            memory(&resources, Path::new("/s"), &asked, out);
        });
        let found: Vec<_> = findings.iter().map(|f| (f.level, f.text.clone())).collect();
        assert_eq!(found.len(), usize::from(both.is_some()), "{found:?}");
        if let (Some((one, other)), [(level, text)]) = (both, &found[..]) {
            assert_eq!(*level, Level::Error);
            for option in [one, other] {
                assert!(text.contains(&format!("--{option}")), "{text}");
            }
        }
    }
}

#[test]
fn script_and_configuration_are_compared() {
    let texts = |script: &str, has_log_dir: bool| -> Vec<(Level, String)> {
        let log_dir = if has_log_dir {
            "slurm_log_dir: /l\n"
        } else {
            ""
        };
        let config = testing::procedure(
            &format!("{log_dir}slurm_partition: debug\nslurm_account: ''\nslurm_mem: 32G\n"),
            ", time: 1-0, sbatch_args: [-c4]",
        );
        let (_, procedure) = config.procedures.iter().next().unwrap();
        let script = format!("#!/bin/sh\n{script}\n");
        let path = Path::new("/s");
        let findings =
            testing::judged(|out| directives(&config, procedure, path, script.as_bytes(), out));
        findings.into_iter().map(|f| (f.level, f.text)).collect()
    };
    for same in [
        "#SBATCH --mem=32768 --time=24:00:00 -p debug -c 4",
        "#SBATCH --account=other --qos=low --job-name=x",
        "",
    ] {
        assert_eq!(texts(same, true), [], "{same}");
    }
    assert_eq!(texts("#SBATCH --output=/x/%j", false), []);
    for (script, level, part) in [
        (
            "#SBATCH --mem=64G",
            Level::Warning,
            "--mem=64G in line 2, 32G in",
        ),
        (
            "#SBATCH -t 60",
            Level::Warning,
            "--time=60 in line 2, 1-0 in",
        ),
        (
            "#SBATCH -c 8",
            Level::Warning,
            "--cpus-per-task=8 in line 2, 4 in",
        ),
        (
            "#SBATCH -o /x/%j",
            Level::Warning,
            "--output=/x/%j (line 2)",
        ),
        ("#SBATCH --array=0-9", Level::Error, "--array=0-9"),
        ("#SBATCH -M gpu", Level::Warning, "--clusters=gpu"),
    ] {
        let found = texts(script, true);
        assert_eq!(found.len(), 1, "{script}: {found:?}");
        assert_eq!(found[0].0, level);
        assert!(found[0].1.contains(part), "{script}: {found:?}");
    }
}

fn shown(text: &str, set: &[(&str, &str)]) -> String {
    let env = |name: &str| {
        let mut set = set.iter();
        set.find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let files = files(text, &env).into_iter();
    let files = files.map(|(variable, path)| format!("{variable}={}", path.display()));
    files.collect::<Vec<_>>().join(" ")
}

#[test]
fn images_and_licences_of_the_catalogue_are_found() {
    for app in apps() {
        let found = shown(app.script, &[]);
        assert!(found.contains("_IMAGE=/opt/containers/"), "{found}");
    }
    assert_eq!(
        shown(app("fmriprep").unwrap().script, &[]),
        "SNBB_FMRIPREP_IMAGE=/opt/containers/fmriprep.sif SNBB_FS_LICENSE=/opt/freesurfer/license.txt"
    );
    let set = [("SNBB_HEUDICONV_IMAGE", "/i.sif"), ("SNBB_HEURISTIC", "")];
    assert_eq!(
        shown(app("heudiconv").unwrap().script, &set),
        "SNBB_HEUDICONV_IMAGE=/i.sif SNBB_HEURISTIC=/opt/snbb/heuristic.py"
    );
}

#[test]
fn files_of_other_scripts_are_found_where_possible() {
    for (text, expected) in [
        ("export FS_LICENSE=\"/l x.txt\"\n", "FS_LICENSE=/l x.txt"),
        ("X_CONFIG=${A:-'/it'\\''s'}\n", "A=/it's"),
        ("IMAGE=docker://x/y\nsingularity run $IMAGE\n", ""),
        ("IMAGE=$HOME/x.sif\nOTHER=/x\n", ""),
    ] {
        assert_eq!(shown(text, &[]), expected, "{text}");
    }
}
