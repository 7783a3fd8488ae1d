//! Which clusters of a multi-cluster site the jobs of a configuration may be on. Pure.

use std::sync::Arc;

use crate::model::procedure::ProcedureDag;

/// Returns the clusters that the procedures' `sbatch_args` name, each once.
pub fn of_procedures(procedures: &ProcedureDag) -> Vec<Arc<str>> {
    let mut found: Vec<Arc<str>> = Vec::new();
    for (_, procedure) in procedures.iter() {
        for name in named_in(&procedure.resources.sbatch_args) {
            if !found.iter().any(|known| **known == *name) {
                found.push(Arc::from(name));
            }
        }
    }
    found
}

/// Returns the clusters that options of sbatch name; as with sbatch, the last option counts.
pub fn named_in(arguments: &[String]) -> Vec<&str> {
    let mut named: Option<&str> = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = if let Some(long) = argument.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            if !is_option(name) {
                continue;
            }
            value
        } else if let Some(value) = argument.strip_prefix("-M") {
            Some(value).filter(|value| !value.is_empty())
        } else {
            continue;
        };
        named = value.or_else(|| rest.next().map(String::as_str)).or(named);
    }
    named
        .into_iter()
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect()
}

/// getopt_long(3) takes abbreviations; `--cluster-constraint` is another option.
fn is_option(name: &str) -> bool {
    name.len() > "c".len() && "clusters".starts_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_found_in_every_spelling() {
        for (arguments, expected) in [
            (&["-M", "x"][..], &["x"][..]),
            (&["-Mx"], &["x"]),
            (&["--clusters=x,y"], &["x", "y"]),
            (&["--clusters", "x, y"], &["x", "y"]),
            (&["--cluster=x"], &["x"]),
            (&["--clus=x"], &["x"]),
            (&["--cluster-constraint=gpu"], &[]),
            (&["--comment=x", "--nice=5"], &[]),
            (&["-Mx", "--clusters=y"], &["y"]),
            (&["--nice=5", "-M"], &[]),
            (&["--clusters="], &[]),
            (&[], &[]),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
            assert_eq!(named_in(&arguments), expected, "{arguments:?}");
        }
    }
}
