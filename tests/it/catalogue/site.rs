//! A dataset in which one app's script is run as the scheduler runs it, with a stub for its container, and judged by the
//! program's own evaluator. Its path has a blank.
#![expect(
    clippy::disallowed_methods,
    reason = "runs scripts and looks at their outputs"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use regex::Regex;
use snbb_scheduler::config::Overrides;
use snbb_scheduler::config::load::interpret;
use snbb_scheduler::gather::completion::probe::Probe;
use snbb_scheduler::gather::completion::{Completion, Completions as _};
use snbb_scheduler::model::bids::{SessionLabel, SubjectLabel};
use snbb_scheduler::model::config::Config;
use snbb_scheduler::model::procedure::{OutputRoots, Procedure, Scope};
use snbb_scheduler::setup::catalogue;
use snbb_scheduler::setup::catalogue::App;
use snbb_scheduler::show::audit::details::{MarkerResult, marker_results};
use tempfile::TempDir;

use crate::harness::executable;

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Loads a configuration with these entries of `procedures`, as if it stood in a directory.
pub fn load(dir: &Path, entries: &str) -> Config {
    let text = format!(
        "dicom_root: dicom\nbids_root: bids\nderivatives_root: derivatives\nstate_file: state.parquet\n\
         script_dir: {ROOT}/slurm_templates\nprocedures:\n{entries}"
    );
    let config = interpret(
        text.as_bytes(),
        Some(&dir.join("config.yaml")),
        false,
        &|_| None,
        &Overrides::default(),
        dir,
    );
    config.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns an app after those that it needs, the first of each list.
pub fn with_needs(app: &'static App) -> Vec<&'static App> {
    let mut all: Vec<&App> = Vec::new();
    for name in app.needs.iter().map(|any| any[0]) {
        for needed in with_needs(catalogue::app(name).unwrap()) {
            if !all.iter().any(|known| known.name == needed.name) {
                all.push(needed);
            }
        }
    }
    all.push(app);
    all
}

pub struct Site {
    dir: TempDir,
    pub app: &'static App,
    config: Config,
    sessions: &'static [&'static str],
}

impl Site {
    /// Makes raw images of all kinds in these sessions (`""`: no session level), and what the app needs of others.
    pub fn new(app: &'static App, sessions: &'static [&'static str]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("a study ")
            .tempdir()
            .unwrap();
        let needed = with_needs(app);
        let entries: String = needed.iter().map(|app| app.entry.as_ref()).collect();
        let site = Self {
            config: load(dir.path(), &entries),
            dir,
            app,
            sessions,
        };
        for name in ["bids", "derivatives", "scratch"] {
            fs::create_dir(site.at(name)).unwrap();
        }
        for file in [
            "license.txt",
            "heuristic.py",
            "dcm2bids.json",
            "templateflow",
        ] {
            site.write(file, b"");
        }
        for session in sessions {
            site.write(&format!("dicom/sub-01/{session}/1.dcm"), b"x");
            if !app.needs.is_empty() {
                site.scan(session);
            }
        }
        for other in &needed[..needed.len() - 1] {
            if !other.needs.is_empty() {
                let output = site.run_other(other, "");
                assert!(output.status.success(), "{}: {}", other.name, text(&output));
            }
        }
        let _ = fs::remove_file(site.at("calls"));
        site
    }

    fn scan(&self, session: &str) {
        let name = if session.is_empty() {
            "sub-01".to_owned()
        } else {
            format!("sub-01_{session}")
        };
        for image in [
            "anat/NAME_T1w",
            "anat/NAME_acq-defaced_T1w",
            "dwi/NAME_dir-AP_dwi",
            "dwi/NAME_dir-PA_dwi",
            "fmap/NAME_acq-dwi_dir-PA_epi",
            "func/NAME_task-rest_bold",
            "perf/NAME_asl",
        ] {
            let path = format!(
                "bids/sub-01/{session}/{}.nii.gz",
                image.replace("NAME", &name)
            );
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(b"image").unwrap();
            self.write(&path, &gzip.finish().unwrap());
        }
        for kind in ["bval", "bvec"] {
            let path = format!("bids/sub-01/{session}/dwi/{name}_dir-AP_dwi.{kind}");
            self.write(&path, b"0 1000\n");
        }
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Returns the procedure of an app, as the configuration has it.
    pub fn procedure(&self, app: &App) -> &Procedure {
        let dag = &self.config.procedures;
        dag.get(dag.find(app.name).unwrap())
    }

    /// Returns the labels of the app's tasks: sessions, or one empty label.
    fn tasks(&self, app: &App) -> &'static [&'static str] {
        match self.procedure(app).scope {
            Scope::Session => self.sessions,
            Scope::Subject => &[""],
        }
    }

    /// Returns the label of the app's last task, the one that is judged.
    pub fn last_task(&self, app: &App) -> &'static str {
        self.tasks(app).last().unwrap()
    }

    /// Returns the output directory of a task.
    pub fn output(&self, app: &App, session: &str) -> PathBuf {
        let roots = OutputRoots {
            bids: &self.config.bids_root,
            derivatives: &self.config.derivatives_root,
        };
        roots.output(self.procedure(app), "sub-01", session)
    }

    /// Runs the app's script for each of its tasks and returns what the last one said; see the stub for `fail`.
    pub fn run(&self, fail: &str) -> Output {
        self.run_other(self.app, fail)
    }

    fn run_other(&self, app: &App, fail: &str) -> Output {
        let mut last = None;
        for session in self.tasks(app) {
            let mut command = self.command(app, session);
            last = Some(command.env("STUB_FAIL", fail).output().unwrap());
        }
        last.unwrap()
    }

    /// Returns the call of the script of a task, as the scheduler makes it.
    pub fn command(&self, app: &App, session: &str) -> Command {
        let bin = Path::new(ROOT).join("fixtures/bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(
            self.config
                .script_dir
                .as_ref()
                .unwrap()
                .join(format!("{}.sh", app.name)),
        );
        command.arg("sub-01");
        if self.procedure(app).scope == Scope::Session {
            command
                .arg(session)
                .arg(self.at("dicom/sub-01").join(session));
        }
        for variable in [
            "SLURM_TMPDIR",
            "SLURM_CPUS_PER_TASK",
            "SLURM_MEM_PER_NODE",
            "CUDA_VISIBLE_DEVICES",
        ] {
            command.env_remove(variable);
        }
        command
            .current_dir(self.dir.path())
            .env("PATH", path)
            .env("STUB_LOG", self.at("calls"))
            .env("STUB_QUOTED", "yes")
            .env("SNBB_BIDS_ROOT", self.at("bids"))
            .env("SNBB_DERIVATIVES_ROOT", self.at("derivatives"))
            .env("SNBB_OUTPUT_DIR", self.output(app, session))
            .env("SNBB_SCRATCH", self.at("scratch"))
            .env("SNBB_FS_LICENSE", self.at("license.txt"))
            .env("SNBB_HEURISTIC", self.at("heuristic.py"))
            .env("SNBB_DCM2BIDS_CONFIG", self.at("dcm2bids.json"));
        command
    }

    /// Judges the app's last task.
    pub fn completion(&self) -> Completion {
        let (subject, session) = self.labels();
        let probe = Probe::new(&self.config).unwrap();
        let id = self.config.procedures.find(self.app.name).unwrap();
        probe.for_subject(&subject).completion(id, &session)
    }

    /// Judges each marker of the app's last task.
    pub fn markers(&self) -> Vec<MarkerResult> {
        let (subject, session) = self.labels();
        let probe = Probe::new(&self.config).unwrap();
        let id = self.config.procedures.find(self.app.name).unwrap();
        marker_results(probe.brief_explainer(&subject).findings(id, &session))
    }

    fn labels(&self) -> (SubjectLabel, SessionLabel) {
        let session = match self.last_task(self.app) {
            "" => SessionLabel::none(),
            label => SessionLabel::new(label).unwrap(),
        };
        (SubjectLabel::new("sub-01").unwrap(), session)
    }

    /// Returns how the containers were called, without what differs from run to run.
    pub fn calls(&self) -> String {
        let text = fs::read_to_string(self.at("calls")).unwrap_or_default();
        let root = self.dir.path().display().to_string().replace(' ', "\\ ");
        let scratch = Regex::new(r"(snbb_\w+_sub-01)_\w{6}").unwrap();
        let text = text.replace(&root, "ROOT");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        scratch
            .replace_all(&lines.join("\n"), "${1}_RANDOM")
            .into_owned()
    }

    /// Runs the script of the last task with `cp`, `mv`, `touch` and `unlink` that count and kill it at one of their calls
    /// (0: at none).
    pub fn run_killed_at(&self, step: usize) -> ExitStatus {
        let bin = self.at("bin");
        fs::create_dir_all(&bin).unwrap();
        for name in ["cp", "mv", "touch", "unlink"] {
            let text = format!(
                "#!/bin/bash\nn=$(($(<\"$STEPS\") + 1))\necho $n >\"$STEPS\"\n\
                 [ $n != \"$STEP\" ] || {{ kill -KILL $PPID; exit 1; }}\nexec /bin/{name} \"$@\"\n"
            );
            fs::write(bin.join(name), text).unwrap();
            executable(&bin.join(name));
        }
        self.write("steps", b"0");
        let mut command = self.command(self.app, self.last_task(self.app));
        let stub = Path::new(ROOT).join("fixtures/bin");
        let path = format!("{}:{}:/usr/bin:/bin", bin.display(), stub.display());
        command
            .env("PATH", path)
            .env("STEPS", self.at("steps"))
            .env("STEP", step.to_string());
        command.output().unwrap().status
    }

    /// Returns how many steps the last script took.
    pub fn steps(&self) -> usize {
        let text = fs::read_to_string(self.at("steps")).unwrap();
        text.trim().parse().unwrap()
    }

    /// Fails if something half-written or temporary was left.
    pub fn assert_clean(&self, what: &str) {
        let scratch: Vec<_> = fs::read_dir(self.at("scratch")).unwrap().collect();
        assert!(scratch.is_empty(), "{}: {what}: {scratch:?}", self.app.name);
        self.assert_nothing_half(what);
    }

    /// Fails if something half-written was left among the data.
    pub fn assert_nothing_half(&self, what: &str) {
        let left: Vec<PathBuf> = ["bids", "derivatives"]
            .iter()
            .flat_map(|dir| walkdir::WalkDir::new(self.at(dir)))
            .map(|entry| entry.unwrap().into_path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "tmp"))
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{}: {what}", self.app.name);
    }
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}
