//! Is the set-up of a site sound? A list of findings, each with what to do. Changes nothing that stays.
//!
//! One file per topic: `check` gathers what there is to see, and `judge` makes findings of it, purely. [`run`] starts
//! all of them; [`trial`] tries a directory out, `slurm::inspect` asks Slurm.

mod clock;
pub mod config;
pub mod cron;
mod environment;
mod notify;
mod places;
mod roots;
pub mod run;
mod scripts;
mod sessions;
mod settings;
mod site;
pub mod slurm;
mod state;
#[cfg(test)]
mod testing;
mod trial;

use polars::prelude::DataFrame;

use crate::base::text;
use crate::base::text::plural;
use crate::show::tables::{TableError, texts};

pub use crate::store::verify::Level;
pub use site::Site;

/// Holds what one look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// What was looked at, a stable word for scripts: `config`, `dicom_root`, `script`, `lock`, ...
    pub topic: &'static str,
    /// The procedure, path or partition that it is about; empty for the site as a whole.
    pub about: String,
    /// One sentence without full stop.
    pub text: String,
    /// What to do; none for what is in order.
    pub advice: Option<String>,
}

/// All topics, in the order in which findings are shown. Scripts rely on the words.
pub const TOPICS: [&str; 24] = [
    "config",
    "environment",
    "dicom_root",
    "bids_root",
    "derivatives_root",
    "sessions",
    "script",
    "markers",
    "procedure",
    "state_file",
    "log_file",
    "log_dir",
    "lock",
    "clock",
    "state",
    "slurm",
    "queue",
    "accounting",
    "partition",
    "submission",
    "executor",
    "safety",
    "notify",
    "cron",
];

/// Collects findings, each about what was named last.
#[derive(Default)]
pub struct Findings {
    topic: &'static str,
    about: String,
    /// How many there were when it was named.
    before: usize,
    pub list: Vec<Finding>,
}

impl Findings {
    fn about(&mut self, topic: &'static str, about: impl ToString) -> &mut Self {
        self.topic = topic;
        self.about = about.to_string();
        self.before = self.list.len();
        self
    }

    fn ok(&mut self, text: impl Into<String>) {
        self.add(Level::Ok, text, "");
    }

    fn warning(&mut self, text: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warning, text, advice);
    }

    fn error(&mut self, text: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Error, text, advice);
    }

    fn add(&mut self, level: Level, text: impl Into<String>, advice: impl Into<String>) {
        self.list.push(Finding {
            level,
            topic: self.topic,
            about: self.about.clone(),
            text: text.into(),
            advice: (level != Level::Ok).then(|| advice.into()),
        });
    }

    /// Says that all is well with it, unless something else was said.
    fn or_ok(&mut self, text: impl Into<String>) {
        if self.list.len() == self.before {
            self.ok(text);
        }
    }
}

/// Puts findings into the order in which they are shown: the worst first, then by topic.
pub fn sort(findings: &mut [Finding]) {
    let place = |topic: &str| TOPICS.iter().position(|known| *known == topic);
    findings.sort_by_key(|finding| {
        (
            std::cmp::Reverse(finding.level),
            place(finding.topic).unwrap_or(TOPICS.len()),
        )
    });
}

/// Returns a row per finding: `level, topic, about, finding, advice, todo`, the last two the same: `advice` is the old name.
pub fn checks_frame(findings: &[Finding]) -> Result<DataFrame, TableError> {
    let column =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    let columns = vec![
        column("level", |f| Some(f.level.as_str())),
        column("topic", |f| Some(f.topic)),
        column("about", |f| Some(&f.about)),
        column("finding", |f| Some(&f.text)),
        column("advice", |f| f.advice.as_deref()),
        column("todo", |f| f.advice.as_deref()),
    ];
    Ok(DataFrame::new(findings.len(), columns)?)
}

/// Tells once what several procedures have in common, for people: trouble in the same words, and what Slurm
/// says of a script that this program has found fault with itself.
pub fn combined(findings: Vec<Finding>) -> Vec<Finding> {
    let faulty: Vec<String> = findings
        .iter()
        .filter(|finding| finding.topic == "script" && finding.level == Level::Error)
        .map(|finding| finding.about.clone())
        .collect();
    let is_echo = |finding: &Finding| {
        finding.topic == "submission"
            && finding.text.to_lowercase().contains("batch script")
            && faulty.contains(&finding.about)
    };
    let mut told: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        if is_echo(&finding) {
            continue;
        }
        let same = told.iter_mut().find(|other| {
            finding.level != Level::Ok
                && (other.level, other.topic) == (finding.level, finding.topic)
                && (&other.text, &other.advice) == (&finding.text, &finding.advice)
        });
        match same {
            Some(other) => other.about = format!("{}, {}", other.about, finding.about),
            None => told.push(finding),
        }
    }
    told
}

/// Says in one line how things stand.
pub fn verdict(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    match (errors, warnings) {
        (0, 0) => format!("sound: {} in order", plural(findings.len(), "thing")),
        (0, _) => format!("usable, with {}", plural(warnings, "warning")),
        (_, 0) => format!("not sound: {}", plural(errors, "error")),
        _ => format!(
            "not sound: {}, {}",
            plural(errors, "error"),
            plural(warnings, "warning")
        ),
    }
}

/// Names the first three of a list.
fn few<S: AsRef<str>>(names: &[S]) -> String {
    text::few(names, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_the_verdict_counts() {
        let mut findings = vec![
            testing::ok("config", "", "a"),
            testing::warning("state", "", "b", "x"),
            testing::error("script", "p", "c", "x"),
            testing::error("config", "", "d", "x"),
        ];
        assert_eq!(verdict(&findings), "not sound: 2 errors, 1 warning");
        sort(&mut findings);
        let texts: Vec<&str> = findings.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(texts, ["d", "c", "b", "a"]);
        assert_eq!(verdict(&findings[3..]), "sound: 1 thing in order");
        assert_eq!(verdict(&findings[2..]), "usable, with 1 warning");
        assert_eq!(verdict(&findings[..1]), "not sound: 1 error");
        assert_eq!(few(&["a", "b", "c", "d"]), "a, b, c and 1 more");
    }

    #[test]
    fn what_procedures_have_in_common_is_told_once() {
        let script = |about| testing::error("script", about, "/s/a.sh has DOS line breaks", "x");
        let slurm = |about| {
            let text = "Slurm would refuse a job of it: Batch script contains DOS line breaks";
            testing::error("submission", about, text, "y")
        };
        let all = vec![
            script("a"),
            script("b"),
            slurm("a"),
            slurm("b"),
            testing::ok("script", "c", "k"),
        ];
        let told: Vec<(String, Level)> = combined(all)
            .into_iter()
            .map(|f| (f.about, f.level))
            .collect();
        assert_eq!(
            told,
            [
                ("a, b".to_owned(), Level::Error),
                ("c".to_owned(), Level::Ok)
            ]
        );
        // Nothing else has said so.
        assert_eq!(combined(vec![slurm("a"), slurm("b")])[0].about, "a, b");
    }
}
