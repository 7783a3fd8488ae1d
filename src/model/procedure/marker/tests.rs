use super::*;
use proptest::prelude::*;

fn matches(glob: &str, name: &str) -> bool {
    let pattern = Pattern::parse(glob).unwrap();
    match &pattern.components[0] {
        Component::Glob(glob) => glob.matches(OsStr::new(name)),
        Component::Literal(literal) => literal == name,
        Component::AnyDepth => true,
    }
}

#[test]
fn names_match_as_in_fnmatch_but_for_the_leading_dot() {
    for (glob, name, expected) in [
        ("*_T1w.nii.gz", "sub-01_T1w.nii.gz", true),
        ("*_T1w.nii.gz", ".sub-01_T1w.nii.gz", false),
        (".*_T1w.nii.gz", ".sub-01_T1w.nii.gz", true),
        ("[.]x*", ".xy", false),
        ("?x", ".x", false),
        ("*_T1w.nii.gz", "sub-01_T1W.nii.gz", false),
        ("*_T1w.nii.gz", "sub-01_T1w.nii.gz.tmp", false),
        ("*dir-AP*_dwi.nii.gz", "x_dir-AP_run-1_dwi.nii.gz", true),
        ("*dir-AP*_dwi.nii.gz", "x_dir-PA_dwi.nii.gz", false),
        ("a*a", "a", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("[ab]1*", "b1", true),
        ("[!ab]1*", "b1", false),
        ("[!ab]1*", "c1", true),
        ("[]]*", "]1", true),
        (r"\*x", r"\yx", true),
        (r"\*x", "*x", false),
        ("a[1].html", "a1.html", true),
        ("a[1].html", "a[1].html", false),
        ("a[0-9][0-9]", "a42", true),
    ] {
        assert_eq!(matches(glob, name), expected, "{glob} on {name}");
    }
}

#[test]
fn unsafe_and_ambiguous_patterns_are_refused() {
    for (text, expected) in [
        ("/abs/*", "is absolute"),
        ("a/../b", "leaves its directory"),
        ("..", "leaves its directory"),
        ("", "is empty"),
        ("./", "is empty"),
        ("**.html", "combines '**'"),
        ("{a,b}*", "contains braces"),
        ("{subject}_{run}", "contains braces"),
        ("[z-a]", "is not a valid pattern"),
        ("a[1*", "is not a valid pattern"),
        ("[^a]*", "contains '[^'"),
    ] {
        let error = Pattern::parse(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn sizes_matter_for_globs_only() {
    assert_eq!(Marker::new(Pattern::parse("a/*.x").unwrap()).min_size, 1);
    assert_eq!(Marker::new(Pattern::parse("a/done").unwrap()).min_size, 0);
    assert!(Pattern::parse("a/").unwrap().directories_only);
    assert_eq!(Pattern::parse("**/**/a").unwrap().components.len(), 2);
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in r"[ab*?\[\]!^{}./\\é-]{0,12}", name in "[ab.é^{}]{0,6}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert!(!pattern.components.is_empty());
            for component in pattern.components {
                if let Component::Glob(glob) = component {
                    glob.matches(OsStr::new(&name));
                }
            }
        }
    }

    #[test]
    fn a_single_star_matches_prefix_and_suffix(a in "[ab]{0,3}", b in "[ab]{0,3}", name in "[ab]{0,7}") {
        let expected = name.len() >= a.len() + b.len() && name.starts_with(&a) && name.ends_with(&b);
        prop_assert_eq!(matches(&format!("{a}*{b}"), &name), expected);
    }
}
