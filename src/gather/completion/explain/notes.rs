//! What is said beside a rule: why it does not count, or what stands in its file.

use super::super::probe::{Outcome, Rule, SubjectProbe, Task, freesurfer};
use crate::gather::disk::Unreadable;
use crate::model::procedure::marker::Pattern;

pub(super) fn note(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    rule: &Rule<'_>,
    outcome: &Result<Outcome, Unreadable>,
) -> Option<String> {
    match (outcome, rule) {
        (Err(unreadable), _) => {
            let path = unreadable.path.display();
            Some(format!("{path}: {}", unreadable.error))
        }
        (Ok(Outcome::Excused), Rule::Marker(marker)) => {
            let when: Vec<&str> = marker.when.iter().map(Pattern::as_str).collect();
            let when = when.join("' or '");
            let input = subject.input(task);
            Some(format!("nothing matches '{when}' in {}", input.display()))
        }
        (Ok(Outcome::Missing), Rule::Marker(marker)) => {
            let needed = subject.needed(marker, task).ok()?;
            (needed > 1).then(|| format!("{needed} are needed"))
        }
        (Ok(Outcome::Missing), Rule::Images(_)) => {
            Some(format!("no T1w image below {}", subject.bids().display()))
        }
        (Ok(Outcome::Missing), Rule::Run(run)) => {
            let path = subject.top(task).join(run).join(freesurfer::DONE);
            let text = subject.reader().first_line(&path, freesurfer::HEAD);
            let text = text.ok()??;
            let text = String::from_utf8_lossy(&text);
            Some(match text.lines().next().unwrap_or_default().trim() {
                "" => "it is empty".to_owned(),
                line => format!("recon-all has ended with exit code {line}"),
            })
        }
        (Ok(Outcome::Missing), Rule::TimePoints { template, runs }) => {
            let path = subject.top(task).join(template);
            let path = path.join(freesurfer::TIME_POINTS);
            let text = subject.reader().head(&path, freesurfer::HEAD).ok()??;
            let text = String::from_utf8_lossy(&text);
            let named: Vec<&str> = text.split_whitespace().collect();
            let missing = runs.iter().filter(|run| !named.contains(&run.as_str()));
            let missing: Vec<&str> = missing.map(String::as_str).collect();
            let missing = missing.join(", ");
            Some(format!("the template was made without {missing}"))
        }
        _ => None,
    }
}
