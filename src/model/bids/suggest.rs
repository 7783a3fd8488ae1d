//! Suggestions for misspelled labels, in directories (`Ses_1`) and on the command line (`1` for `sub-0001`), and for
//! other misspelled names.

use super::{SessionLabel, SubjectLabel};

/// The label that a directory's name resembles; `None` if it is a label or unlike one. `prefix` is `sub-` or `ses-`.
pub fn intended_label(name: &str, prefix: &str) -> Option<String> {
    if name.starts_with(prefix) {
        return None;
    }
    // Numbered directories in a root are subjects; in a subject's directory, they may be series.
    if prefix == SubjectLabel::PREFIX && is_number(name) {
        return Some(format!("{prefix}{name}"));
    }
    let words = match prefix {
        SubjectLabel::PREFIX => ["subject", "sub"],
        _ => ["session", "ses"],
    };
    let lower = name.to_ascii_lowercase();
    let start = words.into_iter().find(|start| lower.starts_with(start))?;
    let rest = name.get(start.len()..)?;
    let label: &str = rest.trim_start_matches(['-', '_', '.', ' ']);
    let is_label = !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric());
    // `Sub-Alice` resembles a label; `sublist`, `sub_lists` and `sessions` are words.
    let is_intended = rest.starts_with('-') || label.bytes().any(|b| b.is_ascii_digit());
    (is_label && is_intended).then(|| format!("{prefix}{label}"))
}

/// At most `most` labels similar to `wrong`, the nearest first. A different number is another subject, not a typing
/// error.
pub fn similar_labels<'a>(
    wrong: &str,
    labels: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let labels = labels.into_iter();
    let similar = labels.filter_map(|label| Some((distance(bare(wrong), bare(label))?, label)));
    let mut similar: Vec<(usize, &str)> = similar.collect();
    similar.sort_unstable();
    similar.dedup();
    similar.truncate(most);
    similar.into_iter().map(|(_, label)| label).collect()
}

/// The name most similar to `wrong`, if a typing error explains the difference.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (edits, name) = by_distance(wrong, known).into_iter().next()?;
    is_typo(&fold(wrong), edits).then_some(name)
}

/// Names that differ from `wrong` by a typing error, contain it or are part of it; the nearest first.
pub fn candidates<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let folded = fold(wrong);
    let names = by_distance(wrong, known).into_iter();
    names.filter_map(move |(edits, name)| {
        let other = fold(name);
        let contains = folded.len() > 2 && (other.contains(&folded) || folded.contains(&other));
        (contains || is_typo(&folded, edits)).then_some(name)
    })
}

/// Names with their edit distances from `wrong`, the nearest first.
pub fn by_distance<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Vec<(usize, &'a str)> {
    let folded = fold(wrong);
    let edits = |name: &str| strsim::damerau_levenshtein(&folded, &fold(name));
    let names = known.into_iter().map(|name| (edits(name), name));
    let mut names: Vec<(usize, &str)> = names.collect();
    names.sort_unstable();
    names
}

fn is_typo(folded: &str, edits: usize) -> bool {
    let length = folded.chars().count();
    edits <= 1 + length / 4 && edits < length
}

/// A name for comparison, without differences in case, dashes and spaces.
pub fn fold(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}

fn bare(label: &str) -> &str {
    let rest = label.strip_prefix(SubjectLabel::PREFIX);
    rest.or_else(|| label.strip_prefix(SessionLabel::PREFIX))
        .unwrap_or(label)
}

/// The distance between two labels; `None` if they are not similar.
fn distance(wrong: &str, label: &str) -> Option<usize> {
    let split = |text: &str| -> (String, String) {
        let text = text.to_ascii_lowercase();
        let is_sign = |c: &char| c.is_alphanumeric();
        text.chars().filter(is_sign).partition(char::is_ascii_digit)
    };
    let ((number, letters), (other_number, other_letters)) = (split(wrong), split(label));
    let edits = strsim::damerau_levenshtein(&letters, &other_letters);
    let allowed = match letters.chars().count() {
        0..=2 => 0,
        length => (length / 4).max(1),
    };
    let same = number.trim_start_matches('0') == other_number.trim_start_matches('0');
    (same && edits <= allowed).then_some(edits)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_resemble_labels_are_recognized() {
        for (name, expected) in [
            ("Sub-01", Some("sub-01")),
            ("SUB-01", Some("sub-01")),
            ("sub_01", Some("sub-01")),
            ("sub01", Some("sub-01")),
            ("sub 01", Some("sub-01")),
            ("subject-01", Some("sub-01")),
            ("subject01", Some("sub-01")),
            ("Sub-Alice", Some("sub-Alice")),
            ("08", Some("sub-08")),
            ("sub-01", None),
            ("sub-01_old", None),
            ("sublist", None),
            ("sub_list", None),
            ("subjects", None),
            ("sub", None),
            ("sub-", None),
            ("derivatives", None),
            ("08a", None),
            ("", None),
            ("sübject-01", None),
            ("ſub-01", None),
        ] {
            assert_eq!(intended_label(name, "sub-").as_deref(), expected, "{name}");
        }
        assert_eq!(intended_label("Ses_2", "ses-").as_deref(), Some("ses-2"));
        assert_eq!(intended_label("session1", "ses-").as_deref(), Some("ses-1"));
        assert_eq!(intended_label("sessions", "ses-"), None);
        assert_eq!(intended_label("sub_01", "ses-"), None);
        assert_eq!(intended_label("001", "ses-"), None);
    }

    #[test]
    fn the_nearest_name_is_found_but_no_dissimilar_one() {
        let names = ["fmriprep", "mriqc", "qc"];
        for (wrong, expected) in [
            ("fmriprp", Some("fmriprep")),
            ("fMRIPrep", Some("fmriprep")),
            ("mriqcc", Some("mriqc")),
            ("qv", Some("qc")),
            ("x", None),
            ("freesurfer", None),
        ] {
            assert_eq!(nearest(wrong, names), expected, "{wrong}");
        }
    }

    #[test]
    fn names_are_found_despite_case_dashes_and_prefixes() {
        let names = ["slurm_mem", "max_mem", "mem_per_cpu", "qsiprep"];
        for (wrong, expected) in [
            ("mem-per-cpu", &["mem_per_cpu"][..]),
            ("Slurm Mem", &["slurm_mem"]),
            ("prep", &["qsiprep"]),
            ("mem", &["max_mem", "slurm_mem", "mem_per_cpu"]),
            ("time", &[]),
        ] {
            assert_eq!(
                candidates(wrong, names).collect::<Vec<_>>(),
                expected,
                "{wrong}"
            );
        }
        assert_eq!(nearest("mem-per-cpus", names), Some("mem_per_cpu"));
        assert_eq!(nearest("prep", names), None);
    }

    #[test]
    fn typing_errors_are_similar_but_other_numbers_are_not() {
        for (wrong, label) in [
            ("sub-001", "sub-0001"),
            ("sub-1", "sub-0001"),
            ("sub-patinet07", "sub-patient07"),
            ("sub-PATIENT7", "sub-patient07"),
            ("sub-alise", "sub-alice"),
            ("ses-basline", "ses-baseline"),
        ] {
            assert_eq!(similar_labels(wrong, [label], 3), [label], "{wrong}");
        }
        for (wrong, label) in [
            ("sub-07", "sub-01"),
            ("sub-99", "sub-0001"),
            ("sub-0007", "sub-0001"),
            ("sub-patient07", "sub-patient08"),
            ("sub-a", "sub-b"),
            ("sub-ab", "sub-ac"),
            ("sub-zzzzzzzz", "sub-abcdefgh"),
        ] {
            assert!(similar_labels(wrong, [label], 3).is_empty(), "{wrong}");
        }
        assert_eq!(
            similar_labels("sub-1", ["sub-01", "sub-001", "sub-2"], 1),
            ["sub-001"]
        );
    }
}
