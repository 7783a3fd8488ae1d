//! The lists of the page: failed tasks, known errors, the change since an earlier report, upkeep.

use std::collections::HashMap;

use maud::{Markup, html};

use super::safe::{memory as gigabytes, plural, safe, spaced, thousands};
use super::table::Kind::{Code, Number, Text};
use super::table::{Kind, ROWS, cell, maybe, table};
use crate::base::sys::local_time;
use crate::show::audit::efficiency::time_limit_text;
use crate::show::audit::report::{
    DicomProblem, OrphanCause, Report, ScriptProblem, TaskDetail, signed,
};

/// Renders what failed, and why.
pub fn failed(report: &Report) -> Markup {
    let findings = report.logs.iter().flat_map(|logs| &logs.findings);
    let telling: HashMap<(&str, &str, &str), &str> = findings
        .filter(|finding| finding.telling)
        .map(|f| ((&*f.procedure, &*f.subject, &*f.session), f.line.as_str()))
        .collect();
    let failed = report
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| is_failed(task));
    let failed: Vec<(usize, &TaskDetail)> = failed.collect();
    let of = |used: Option<String>, asked: Option<String>| match (used, asked) {
        (None, None) => String::new(),
        (used, asked) => {
            let text = |value: Option<String>| value.unwrap_or("?".to_owned());
            format!("{} of {}", text(used), text(asked))
        }
    };
    // Beyond what is shown only the number matters.
    let rows: Vec<Vec<Markup>> = failed
        .iter()
        .enumerate()
        .map(|(place, (number, task))| {
            let Some(job) = task.job.as_ref().filter(|_| place < ROWS) else {
                return vec![name(*number, task), html! {}, html! { (task.text) }];
            };
            let key = (&*task.procedure, &*task.subject, &*task.session);
            let line = telling.get(&key).copied();
            let line = line.or_else(|| task.log_tail.last().map(String::as_str));
            let memory = of(job.max_rss_mb.map(gigabytes), job.req_mem_mb.map(gigabytes));
            let time = of(
                job.elapsed_s.map(time_limit_text),
                job.time_limit_s.map(time_limit_text),
            );
            vec![
                name(*number, task),
                cell(&task.procedure),
                cell(job.failure.as_deref().unwrap_or(&task.text)),
                maybe(line),
                cell(&time),
                cell(&memory),
                maybe(job.node_list.as_deref()),
                maybe(job.job_id.as_deref()),
                cell(task.decision),
            ]
        })
        .collect();
    let columns = [
        ("Session", Text),
        ("Procedure", Text),
        ("Why", Text),
        ("What the log says", Code),
        ("Time of limit", Number),
        ("Memory of asked", Number),
        ("Node", Text),
        ("Job", Text),
        ("Now", Text),
    ];
    html! {
        @if rows.is_empty() {
            p { "No failed task." }
        } @else {
            (table(&format!("Failed tasks ({})", thousands(rows.len())), &columns, &rows))
            @if rows.len() > ROWS { p.hint { "The sessions above show all of them: choose the status “failed”." } }
        }
    }
}

fn is_failed(task: &TaskDetail) -> bool {
    task.decision == "failed" || task.job.as_ref().is_some_and(|job| job.status == "failed")
}

/// Names a task; the script makes a way to its details of it.
fn name(number: usize, task: &TaskDetail) -> Markup {
    html! {
        span data-detail=(number) { (safe(&task.subject)) " " (safe(&task.session)) }
    }
}

/// Renders the patterns that were found in logs.
pub fn known_errors(report: &Report) -> Markup {
    let Some(logs) = &report.logs else {
        return html! {};
    };
    let rows: Vec<Vec<Markup>> = logs
        .by_pattern
        .iter()
        .map(|pattern| {
            vec![
                html! { (spaced(&pattern.pattern)) },
                html! { (thousands(pattern.tasks)) },
                cell(&pattern.meaning),
                cell(&pattern.hint),
            ]
        })
        .collect();
    let columns = [
        ("Pattern", Text),
        ("Tasks", Number),
        ("Meaning", Text),
        ("What to do", Text),
    ];
    html! {
        h3 { "Known errors in logs" }
        p.hint {
            "Logs of " (plural(logs.tasks, "task")) ": " (thousands(logs.without_log)) " without a log, "
            (thousands(logs.without_finding)) " without a known error."
        }
        @if !rows.is_empty() { (table("Known errors by pattern", &columns, &rows)) }
        @if !report.study.parts.contains(&"tasks") { (findings(report)) }
    }
}

/// Lists single lines where there are no details that would tell of them.
fn findings(report: &Report) -> Markup {
    let findings = report.logs.iter().flat_map(|logs| &logs.findings);
    let rows: Vec<Vec<Markup>> = findings
        .map(|f| {
            vec![
                html! { (safe(&f.subject)) " " (safe(&f.session)) },
                cell(&f.procedure),
                html! { (spaced(&f.pattern)) },
                cell(&f.line),
                html! { (safe(&f.file)) @if let Some(number) = f.line_number { ":" (number) } },
            ]
        })
        .collect();
    let columns = [
        ("Session", Text),
        ("Procedure", Text),
        ("Pattern", Text),
        ("Line", Code),
        ("File", Code),
    ];
    html! { @if !rows.is_empty() { (table("Lines of logs", &columns, &rows)) } }
}

/// Renders the change since an earlier report.
pub fn trend(report: &Report) -> Markup {
    let Some(trend) = &report.trend else {
        return html! {};
    };
    let matters = trend.matters.iter().map(|matter| {
        let change = matter.now as i128 - matter.before as i128;
        let judged = match (matter.bad, change) {
            (_, 0) => html! { "same" },
            (true, 1..) => html! { span.worse { "▲ worse" } },
            (true, _) => html! { span.better { "▼ better" } },
            (false, 1..) => html! { "▲ more" },
            (false, _) => html! { "▼ fewer" },
        };
        vec![
            html! { (spaced(matter.matter)) },
            html! { (thousands(matter.before)) },
            html! { (thousands(matter.now)) },
            html! { (signed(change)) },
            judged,
        ]
    });
    let matters: Vec<Vec<Markup>> = matters.collect();
    let procedures = trend.procedures.iter().map(|p| {
        vec![
            cell(&p.procedure),
            html! { (thousands(p.complete_before)) },
            html! { (thousands(p.complete_now)) },
            html! { (thousands(p.failed_before)) },
            html! { (thousands(p.failed_now)) },
        ]
    });
    let procedures: Vec<Vec<Markup>> = procedures.collect();
    let columns = [
        ("Matter", Text),
        ("Before", Number),
        ("Now", Number),
        ("Change", Number),
        ("So it is", Text),
    ];
    let by_procedure = [
        ("Procedure", Text),
        ("Complete before", Number),
        ("Complete now", Number),
        ("Failed before", Number),
        ("Failed now", Number),
    ];
    html! {
        section #trend aria-labelledby="trend-title" {
            h2 #trend-title { "Since the last report" }
            p.hint {
                "Compared with " code { (safe(&trend.file)) } " of " (local_time(trend.created_at)) ". "
                @if trend.worse { strong.worse { "Something got worse." } }
            }
            div.pair {
                div { (table("Change of the whole study", &columns, &matters)) }
                div { (table("Change by procedure", &by_procedure, &procedures)) }
            }
        }
    }
}

/// Is a list with its title and its columns.
type List<'a> = (&'a str, &'a [(&'a str, Kind)], &'a [Vec<Markup>]);

/// Renders what a person should put in order.
pub fn upkeep(report: &Report) -> Markup {
    let (stale, orphans, jobs) = (stale(report), orphans(report), unknown_jobs(report));
    let (scripts, unreadable) = (scripts(report), unreadable(report));
    let dicom = dicom(report);
    let lists: [List<'_>; 6] = [
        (
            "Could not be read",
            &[("Path", Code), ("Part", Text), ("Error", Text)],
            &unreadable,
        ),
        (
            "Stale jobs",
            &[
                ("Session", Text),
                ("Procedure", Text),
                ("Job", Text),
                ("Status", Text),
                ("Submitted", Text),
                ("In flight for", Number),
            ],
            &stale,
        ),
        (
            "DICOM directories",
            &[("Session", Text), ("Problem", Text), ("Path", Code)],
            &dicom,
        ),
        (
            "Job scripts",
            &[("Procedure", Text), ("Script", Code), ("Problem", Text)],
            &scripts,
        ),
        (
            "Rows on record that belong to no task",
            &[
                ("Session", Text),
                ("Procedure", Text),
                ("Status", Text),
                ("Job", Text),
                ("Why", Text),
            ],
            &orphans,
        ),
        (
            "Living jobs that no row knows",
            &[("Job", Text), ("Name", Code), ("State", Text)],
            &jobs,
        ),
    ];
    html! {
        section #upkeep aria-labelledby="upkeep-title" {
            h2 #upkeep-title { "Upkeep" }
            @if lists.iter().all(|(_, _, rows)| rows.is_empty()) {
                p { "Nothing to put in order." }
            }
            @for (title, columns, rows) in lists {
                @if !rows.is_empty() {
                    (table(&format!("{title} ({})", thousands(rows.len())), columns, rows))
                }
            }
            @if let Some(dicom) = &report.dicom {
                p.hint {
                    "DICOM directories of " (plural(dicom.checked, "session")) " looked at; "
                    "at least " (plural(usize::try_from(dicom.min_files).unwrap_or(usize::MAX), "file")) " each expected."
                }
            }
            @if report.orphans.jobs.is_none() {
                p.hint { "The queue was not asked for jobs that no row knows (" code { "--queue" } ")." }
            }
        }
    }
}

fn stale(report: &Report) -> Vec<Vec<Markup>> {
    let rows = report.stale.iter().map(|job| {
        vec![
            html! { (safe(&job.subject)) " " (safe(&job.session)) },
            cell(&job.procedure),
            maybe(job.job_id.as_deref()),
            html! { (job.status) @if let Some(reason) = job.reason { " (" (spaced(reason)) ")" } },
            html! { (local_time(job.submitted_at)) },
            html! { (job.hours / 24) " d " (job.hours % 24) " h" },
        ]
    });
    rows.collect()
}

fn orphans(report: &Report) -> Vec<Vec<Markup>> {
    let rows = report.orphans.rows.iter().map(|row| {
        vec![
            html! { (safe(&row.subject)) " " (safe(&row.session)) },
            cell(&row.procedure),
            cell(row.status),
            maybe(row.job_id.as_deref()),
            cell(match row.cause {
                OrphanCause::Procedure => "the configuration has no such procedure",
                OrphanCause::Session => "there is no such subject or session",
                OrphanCause::Scope => "the procedure has another scope",
            }),
        ]
    });
    rows.collect()
}

fn unknown_jobs(report: &Report) -> Vec<Vec<Markup>> {
    let rows = report.orphans.jobs.iter().flatten().map(|job| {
        vec![
            cell(&job.job_id),
            cell(&job.name),
            maybe(job.slurm_state.as_deref()),
        ]
    });
    rows.collect()
}

fn scripts(report: &Report) -> Vec<Vec<Markup>> {
    let rows = report.scripts.iter().map(|script| {
        vec![
            cell(&script.procedure),
            cell(&script.script),
            html! {
                (safe(&script.text))
                @if script.problem == ScriptProblem::IgnoredLines {
                    ul.lines { @for line in &script.lines {
                        li { "line " (line.number) ": " code { (safe(&line.text)) } }
                    } }
                }
            },
        ]
    });
    rows.collect()
}

fn unreadable(report: &Report) -> Vec<Vec<Markup>> {
    let rows = report.unreadable.iter().map(|item| {
        vec![
            cell(&item.path),
            html! { (spaced(item.part)) },
            cell(&item.error),
        ]
    });
    rows.collect()
}

fn dicom(report: &Report) -> Vec<Vec<Markup>> {
    let findings = report.dicom.iter().flat_map(|dicom| &dicom.findings);
    findings
        .map(|finding| {
            vec![
                html! { (safe(&finding.subject)) " " (safe(&finding.session)) },
                html! {
                    @match finding.problem {
                        DicomProblem::Missing => { "missing" },
                        DicomProblem::FewFiles => { "only " (plural(usize::try_from(finding.files.unwrap_or(0)).unwrap_or(usize::MAX), "file")) },
                        DicomProblem::Unreadable => { "unreadable: " (safe(finding.error.as_deref().unwrap_or("?"))) },
                    }
                },
                maybe(finding.path.as_deref()),
            ]
        })
        .collect()
}

/// Renders where all this comes from.
pub fn about(report: &Report) -> Markup {
    let study = &report.study;
    let facts = [
        (
            "Configuration",
            study.config.as_deref().unwrap_or("built-in defaults"),
        ),
        ("DICOM", &study.dicom_root),
        ("BIDS", &study.bids_root),
        ("Derivatives", &study.derivatives_root),
        ("State", &study.state_file),
        ("Audit log", &study.log_file),
        (
            "Job logs",
            study.log_dir.as_deref().unwrap_or("not configured"),
        ),
    ];
    html! {
        footer #about aria-label="About this report" {
            dl { @for (name, value) in facts { div { dt { (name) } dd { (safe(value)) } } } }
            p {
                "Rows on record: " (thousands(report.totals.rows.total)) ", of them "
                (thousands(report.totals.rows.pending)) " pending, " (thousands(report.totals.rows.running)) " running, "
                (thousands(report.totals.rows.complete)) " complete, " (thousands(report.totals.rows.failed)) " failed. "
                "Looked at: " (study.parts.join(", ")) "."
            }
        }
    }
}
