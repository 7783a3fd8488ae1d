//! Names that were meant to be labels: of directories (`Ses_1`), and on the command line (`1` for `sub-0001`). Pure.

use super::{SessionLabel, SubjectLabel};

/// Says what a directory's name was meant to be; none if it is a label, or nothing like one. `prefix`: `sub-` or `ses-`.
pub fn meant(name: &str, prefix: &str) -> Option<String> {
    if name.starts_with(prefix) {
        return None;
    }
    // A subject's directory may hold series that are numbered; a root holds subjects.
    if prefix == SubjectLabel::PREFIX && is_number(name) {
        return Some(format!("{prefix}{name}"));
    }
    let word = prefix.trim_end_matches('-');
    let long = match word {
        "sub" => "subject",
        _ => "session",
    };
    let lower = name.to_ascii_lowercase();
    let start = [long, word]
        .into_iter()
        .find(|start| lower.starts_with(start))?;
    let rest = name.get(start.len()..)?;
    let label: &str = rest.trim_start_matches(['-', '_', '.', ' ']);
    let is_label = !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric());
    // `Sub-Alice` is one; `sublist`, `sub_lists` and `sessions` are words.
    let is_meant = rest.starts_with('-') || label.bytes().any(|b| b.is_ascii_digit());
    (is_label && is_meant).then(|| format!("{prefix}{label}"))
}

/// Returns the labels that somebody who wrote `wrong` may have meant, the nearest first, not more than `most`.
/// Another number is another subject, not a slip.
pub fn similar<'a>(
    wrong: &str,
    labels: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = labels
        .into_iter()
        .filter_map(|label| Some((distance(bare(wrong), bare(label))?, label)))
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(most);
    near.into_iter().map(|(_, label)| label).collect()
}

/// Returns the one of some words, names or keys that is spelled most like `wrong`, if a slip explains the difference.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (slips, name) = by_distance(wrong, known).into_iter().next()?;
    is_slip(&fold(wrong), slips).then_some(name)
}

/// Returns those words, names or keys that a slip apart `wrong` is, or that hold it or are held by it; the nearest first.
pub fn candidates<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let folded = fold(wrong);
    let near = by_distance(wrong, known).into_iter();
    near.filter_map(move |(slips, name)| {
        let other = fold(name);
        let holds = folded.len() > 2 && (other.contains(&folded) || folded.contains(&other));
        (holds || is_slip(&folded, slips)).then_some(name)
    })
}

/// Orders words by the number of slips that they are apart from `wrong`.
pub fn by_distance<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Vec<(usize, &'a str)> {
    let folded = fold(wrong);
    let slips = |name: &str| strsim::damerau_levenshtein(&folded, &fold(name));
    let mut near: Vec<(usize, &str)> = known.into_iter().map(|name| (slips(name), name)).collect();
    near.sort_unstable();
    near
}

fn is_slip(folded: &str, slips: usize) -> bool {
    let length = folded.chars().count();
    slips <= 1 + length / 4 && slips < length
}

/// Case, dashes and blanks are no difference.
pub fn fold(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}

fn bare(label: &str) -> &str {
    [SubjectLabel::PREFIX, SessionLabel::PREFIX]
        .into_iter()
        .find_map(|prefix| label.strip_prefix(prefix))
        .unwrap_or(label)
}

/// Returns how far a label is from another one; none if too far.
fn distance(wrong: &str, label: &str) -> Option<usize> {
    let split = |text: &str| -> (String, String) {
        let text = text.to_ascii_lowercase();
        let is_sign = |c: &char| c.is_alphanumeric();
        text.chars().filter(is_sign).partition(char::is_ascii_digit)
    };
    let ((number, letters), (other_number, other_letters)) = (split(wrong), split(label));
    let slips = strsim::damerau_levenshtein(&letters, &other_letters);
    let allowed = match letters.chars().count() {
        0..=2 => 0,
        length => (length / 4).max(1),
    };
    let same = number.trim_start_matches('0') == other_number.trim_start_matches('0');
    let is_swapped = sorted(&number) == sorted(&other_number)
        && strsim::damerau_levenshtein(&number, &other_number) == 1;
    let is_part = number.is_empty() && letters.len() > 2 && other_letters.contains(&letters);
    match (same, slips <= allowed) {
        (true, true) => Some(slips),
        (false, true) if slips == 0 && is_swapped => Some(1),
        _ if is_part => Some(allowed + 1),
        _ => None,
    }
}

fn sorted(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.sort_unstable();
    bytes
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_told_from_other_names() {
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
            assert_eq!(meant(name, "sub-").as_deref(), expected, "{name}");
        }
        assert_eq!(meant("Ses_2", "ses-").as_deref(), Some("ses-2"));
        assert_eq!(meant("session1", "ses-").as_deref(), Some("ses-1"));
        assert_eq!(meant("sessions", "ses-"), None);
        assert_eq!(meant("sub_01", "ses-"), None);
        assert_eq!(meant("001", "ses-"), None);
    }

    #[test]
    fn d18_the_nearest_name_is_found_and_no_other_word() {
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
    fn attack_one_search_finds_names_whatever_their_case_dashes_and_beginnings() {
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
    fn slips_are_near_and_other_numbers_are_not() {
        for (wrong, label) in [
            ("sub-001", "sub-0001"),
            ("sub-1", "sub-0001"),
            ("sub-0021", "sub-0012"),
            ("sub-patinet07", "sub-patient07"),
            ("sub-PATIENT7", "sub-patient07"),
            ("sub-alise", "sub-alice"),
            ("sub-pat", "sub-patient07"),
            ("ses-basline", "ses-baseline"),
        ] {
            assert_eq!(similar(wrong, [label], 3), [label], "{wrong}");
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
            assert!(similar(wrong, [label], 3).is_empty(), "{wrong}");
        }
        assert_eq!(
            similar("sub-1", ["sub-01", "sub-001", "sub-2"], 1),
            ["sub-001"]
        );
    }
}
