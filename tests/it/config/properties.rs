//! No file, however odd, makes the program panic or be rejected without a word.

use proptest::prelude::*;

use snbb_scheduler::config::keys::KEYS;

use super::interpret;

/// Any tree of known and unknown keys, as YAML in flow style (which JSON is).
fn tree() -> impl Strategy<Value = String> {
    let words: Vec<&str> = KEYS
        .iter()
        .map(|key| key.name)
        .chain([
            "", "null", "a", "bids", "**/*.nii", "..", "/x", "~", "${A}", "1", "0", "-1", "10m",
            "on",
        ])
        .chain([
            "32G",
            "freesurfer",
            "qsirecon",
            "subject",
            "any",
            "--mem=1",
            "-",
            "--",
            "<<",
            "\u{1}",
            "é",
        ])
        .collect();
    let quoted = proptest::sample::select(words.clone()).prop_map(|word| format!("{word:?}"));
    let plain = proptest::sample::select(vec!["null", "1", "0", "yes", "a", "~", "10m", "32G"]);
    let leaf = prop_oneof![quoted.clone(), plain.prop_map(str::to_owned)];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let pair =
            (quoted.clone(), inner.clone()).prop_map(|(key, value)| format!("{key}: {value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec(pair, 0..6)
                .prop_map(|pairs| format!("{{{}}}", pairs.join(", "))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = interpret("c.yaml", &bytes);
    }

    #[test]
    fn no_tree_makes_it_panic(site in tree(), procedure in tree(), marker in tree(), audit in tree()) {
        for text in [
            site.clone(),
            format!("procedures: [{procedure}, {site}]"),
            format!("audit: {audit}"),
            format!("procedures: [{{name: a, output_dir: b, script: c, completion_marker: {marker}, \
                     forbid: {site}, depends_on: {procedure}, sbatch_args: {audit}, env: {marker}}}]"),
        ] {
            if let Err(error) = interpret("c.yaml", text.as_bytes()) {
                prop_assert!(!error.problems.is_empty());
                for problem in &error.problems {
                    prop_assert_eq!(problem.to_string().lines().count(), 1);
                    prop_assert!(problem.line > 0);
                }
            }
        }
    }
}
