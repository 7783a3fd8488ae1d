//! The remedy for a job that needed more memory or time than requested. Pure.

use crate::base::text::maybe;
use crate::decide::manifest::retry::{asked_mem, asked_time};
use crate::model::config::Config;
use crate::model::procedure::{MemSize, TimeLimit, options};
use crate::model::state::{Reason, TaskRow, TaskStatus};

/// The remedy for a failed row with too little memory or time. `None` if it failed for another reason, its
/// procedure was removed, or the configuration already requests more.
pub fn remedy(config: &Config, row: &TaskRow) -> Option<String> {
    if row.status != TaskStatus::Failed {
        return None;
    }
    let procedure = config
        .procedures
        .get(config.procedures.find(&row.key.procedure)?);
    let resources = &procedure.resources;
    let (key, factor, asked, configured, text): (_, _, _, _, fn(u64) -> String) = match row.reason?
    {
        Reason::OutOfMemory => (
            "mem",
            "mem_factor",
            asked_mem(row, resources),
            options::mem(resources).and_then(|mem| mem.bound()),
            |mb| MemSize::of_megabytes(mb).to_string(),
        ),
        Reason::Timeout => (
            "time",
            "time_factor",
            asked_time(row, resources),
            options::time(resources).and_then(|time| time.bound()),
            |seconds| TimeLimit::of_seconds(seconds).to_string(),
        ),
        _ => return None,
    };
    let is_raised = configured
        .zip(asked)
        .is_some_and(|(now, asked)| now > asked);
    if is_raised {
        return None;
    }
    let now = maybe(" (was ", asked.map(text), ")");
    let place = config.file.as_deref().and_then(|file| file.file_name());
    let place = place.map_or("the configuration".into(), |name| name.to_string_lossy());
    let has_rule = (procedure.rules.retry.as_ref())
        .and_then(|retry| retry.on.get(&row.reason?))
        .is_some_and(|rule| match key {
            "mem" => rule.mem_factor.is_some(),
            _ => rule.time_factor.is_some(),
        });
    let factor = Some(factor).filter(|_| !has_rule);
    let rule = maybe(", or add a `retry` rule with `", factor, "`");
    Some(format!(
        "increase `{key}` of {} in {place}{now}{rule}: an unchanged retry would fail again",
        row.key.procedure
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Overrides;
    use crate::config::load::interpret;
    use crate::model::state::testing::row;

    fn config(rest: &str) -> Config {
        let text = format!(
            "procedures:\n  - {{name: p, output_dir: p, script: p.sh, completion_marker: x, {rest}}}\n"
        );
        let file = Some(Path::new("/study/c.yaml"));
        let none = |_: &str| None;
        let set = Overrides::default();
        interpret(text.as_bytes(), file, false, &none, &set, Path::new("/")).unwrap()
    }

    fn killed(reason: Reason) -> TaskRow {
        let mut row = row("p", TaskStatus::Failed, reason);
        row.facts.req_mem_mb = Some(100);
        row.facts.time_limit_s = Some(120);
        row
    }

    #[test]
    fn the_remedy_names_the_key_and_its_last_value() {
        let config = config("mem: 100M, time: '00:02:00'");
        assert_eq!(
            remedy(&config, &killed(Reason::OutOfMemory)).unwrap(),
            "increase `mem` of p in c.yaml (was 100M), or add a `retry` rule with `mem_factor`: an \
             unchanged retry would fail again"
        );
        let time = remedy(&config, &killed(Reason::Timeout)).unwrap();
        assert!(
            time.contains("`time`") && time.contains("`time_factor`"),
            "{time}"
        );
        assert_eq!(remedy(&config, &killed(Reason::ExitCode)), None);
    }

    #[test]
    fn an_existing_rule_is_not_proposed_and_an_increased_value_needs_no_remedy() {
        let ruled = config("mem: 100M, retry: {on: {out_of_memory: {mem_factor: 1.5}}}");
        let text = remedy(&ruled, &killed(Reason::OutOfMemory)).unwrap();
        assert!(!text.contains("mem_factor"), "{text}");
        let increased = config("mem: 200M");
        assert_eq!(remedy(&increased, &killed(Reason::OutOfMemory)), None);
    }
}
