//! Checks the setup of a site and lists findings with their remedies. Leaves no changes behind.
//!
//! There is one file per topic. Its `check` reads the site; the functions that turn values into findings are pure.
//! [`run`] starts all topics; [`trial`] tests a directory, `slurm::inspect` queries Slurm.

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
pub mod state;
#[cfg(test)]
mod testing;
mod trial;

use polars::prelude::DataFrame;

use crate::base::text;
use crate::base::text::plural;
use crate::show::tables::{TableError, texts};

pub use crate::store::verify::Level;
pub use site::Site;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// A word that scripts rely on, such as `config`, `dicom_root`, `script` or `lock`.
    pub topic: &'static str,
    /// The procedure, path or partition concerned; empty for the entire site.
    pub about: String,
    pub text: String,
    /// `None` if the level is ok.
    pub remedy: Option<String>,
}

/// All topics, in the order of the output. Scripts rely on the words.
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

/// Collects findings about a current topic.
#[derive(Default)]
pub struct Findings {
    topic: &'static str,
    about: String,
    /// Number of findings when the current topic was set.
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

    fn warning(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Warning, text, remedy);
    }

    fn error(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Error, text, remedy);
    }

    fn add(&mut self, level: Level, text: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding {
            level,
            topic: self.topic,
            about: self.about.clone(),
            text: text.into(),
            remedy: (level != Level::Ok).then(|| remedy.into()),
        });
    }

    /// Adds an ok finding if there is no finding about a topic.
    fn ok_if_none(&mut self, topic: &'static str, text: impl Into<String>) {
        if !self.list.iter().any(|finding| finding.topic == topic) {
            self.about(topic, "").ok(text);
        }
    }

    /// Adds an ok finding if the current topic has no other one.
    fn or_ok(&mut self, text: impl Into<String>) {
        if self.list.len() == self.before {
            self.ok(text);
        }
    }
}

/// Sorts findings for the output: by level, worst first, then by topic.
pub fn sort(findings: &mut [Finding]) {
    let place = |topic: &str| TOPICS.iter().position(|known| *known == topic);
    findings.sort_by_key(|finding| {
        (
            std::cmp::Reverse(finding.level),
            place(finding.topic).unwrap_or(TOPICS.len()),
        )
    });
}

/// A row per finding: `level, topic, about, finding, advice, todo`. The last two are equal; `advice` is the old name.
pub fn checks_frame(findings: &[Finding]) -> Result<DataFrame, TableError> {
    let column =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    let columns = vec![
        column("level", |f| Some(f.level.as_str())),
        column("topic", |f| Some(f.topic)),
        column("about", |f| Some(&f.about)),
        column("finding", |f| Some(&f.text)),
        column("advice", |f| f.remedy.as_deref()),
        column("todo", |f| f.remedy.as_deref()),
    ];
    Ok(DataFrame::new(findings.len(), columns)?)
}

/// Combines findings for people: the same problem of several procedures becomes one finding.
pub fn combined(findings: Vec<Finding>) -> Vec<Finding> {
    let mut combined: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        let same = combined.iter_mut().find(|other| {
            finding.level != Level::Ok
                && (other.level, other.topic) == (finding.level, finding.topic)
                && (&other.text, &other.remedy) == (&finding.text, &finding.remedy)
        });
        match same {
            Some(other) => other.about = format!("{}, {}", other.about, finding.about),
            None => combined.push(finding),
        }
    }
    combined
}

/// A summary in one line.
pub fn verdict(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    match (errors, warnings) {
        (0, 0) => format!("{} passed", plural(findings.len(), "check")),
        (0, _) => format!("usable with {}", plural(warnings, "warning")),
        (_, 0) => format!("failed: {}", plural(errors, "error")),
        _ => format!(
            "failed: {}, {}",
            plural(errors, "error"),
            plural(warnings, "warning")
        ),
    }
}

/// The first three entries of a list.
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
        assert_eq!(verdict(&findings), "failed: 2 errors, 1 warning");
        sort(&mut findings);
        let texts: Vec<&str> = findings.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(texts, ["d", "c", "b", "a"]);
        assert_eq!(verdict(&findings[3..]), "1 check passed");
        assert_eq!(verdict(&findings[2..]), "usable with 1 warning");
        assert_eq!(verdict(&findings[..1]), "failed: 1 error");
        assert_eq!(few(&["a", "b", "c", "d"]), "a, b, c and 1 more");
    }

    #[test]
    fn common_problems_of_procedures_are_combined() {
        let script = |about| testing::error("script", about, "/s/a.sh has DOS line breaks", "x");
        let all = vec![script("a"), script("b"), testing::ok("script", "c", "k")];
        let shown: Vec<(String, Level)> = combined(all)
            .into_iter()
            .map(|f| (f.about, f.level))
            .collect();
        assert_eq!(
            shown,
            [
                ("a, b".to_owned(), Level::Error),
                ("c".to_owned(), Level::Ok)
            ]
        );
    }
}
