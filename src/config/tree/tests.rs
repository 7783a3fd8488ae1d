use super::*;

/// Writes a tree in one line: `k=v` in braces, lists in brackets, quoted scalars in quotes.
fn show(node: &Node) -> String {
    match &node.value {
        NodeValue::Scalar { text, plain: true } => text.clone(),
        NodeValue::Scalar { text, plain: false } => format!("{text:?}"),
        NodeValue::Sequence(items) => {
            let items: Vec<String> = items.iter().map(|node| show(node)).collect();
            format!("[{}]", items.join(" "))
        }
        NodeValue::Mapping(entries) => {
            let entry = |entry: &Entry| format!("{}={}", entry.key, show(&entry.node));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(" "))
        }
    }
}

fn tree(text: &str) -> Tree {
    Tree::parse(text.as_bytes()).unwrap()
}

fn shown(text: &str) -> String {
    tree(text).root.map_or_else(String::new, |root| show(&root))
}

#[test]
fn scalars_stay_as_they_are_written() {
    assert_eq!(
        shown("a: 032\nb: 4:00:00\nc: 'x y'\nd: \"\\t\"\ne:\nf: ~\ng: |\n  two\n  lines\n"),
        "{a=032 b=4:00:00 c=\"x y\" d=\"\\t\" e= f=~ g=\"two\\nlines\\n\"}"
    );
    assert_eq!(
        shown("[a, {b: c}, !!str 1, ! 2, !!int 3]"),
        "[a {b=c} \"1\" \"2\" 3]"
    );
    assert_eq!(shown("\u{feff}a: 1"), "{a=1}");
    assert_eq!(shown("%YAML 1.1\n---\na: 1\n...\n"), "{a=1}");
}

#[test]
fn null_is_written_as_in_yaml_1_1_without_quotes() {
    let root = tree("[~, null, Null, NULL, '', 'null', nil, \"~\", ]")
        .root
        .unwrap();
    let NodeValue::Sequence(items) = &root.value else {
        panic!("{root:?}")
    };
    let nulls: Vec<bool> = items.iter().map(|node| node.is_null()).collect();
    assert_eq!(nulls, [true, true, true, true, false, false, false, false]);
}

#[test]
fn an_empty_file_has_no_root_or_a_null_one() {
    for text in ["", "# only a comment\n", "\n\n", "---\n", "---\n# x\n", "~"] {
        assert!(
            tree(text).root.is_none_or(|node| node.is_null()),
            "{text:?}"
        );
    }
}

#[test]
fn nodes_and_keys_have_positions() {
    let root = tree("a: 1\nlist:\n  - x\n  - {k: 'v'}\n").root.unwrap();
    let NodeValue::Mapping(entries) = &root.value else {
        panic!("{root:?}")
    };
    let at = |line, column| Position { line, column };
    assert_eq!((entries[0].at, entries[0].node.at), (at(1, 1), at(1, 4)));
    assert_eq!((entries[1].at, entries[1].node.at), (at(2, 1), at(3, 3)));
    let NodeValue::Sequence(items) = &entries[1].node.value else {
        panic!("{root:?}")
    };
    assert_eq!((items[0].at, items[1].at), (at(3, 5), at(4, 5)));
}

#[test]
fn merge_keys_work_as_in_pyyaml() {
    // Expected values: yaml.safe_load of PyYAML 6.0.
    for (text, expected) in [
        (
            "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3, z: 4}",
            "{a={x=1 y=2} b={x=1 y=3 z=4}}",
        ),
        (
            "a: &a {x: 1}\nb: {y: 3, x: 2, <<: *a}",
            "{a={x=1} b={x=2 y=3}}",
        ),
        (
            "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}",
            "{a={x=1} b={x=2 y=2} c={x=1 y=2}}",
        ),
        (
            "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}",
            "{a={x=1} b={x=1 y=2} c={x=1 y=2}}",
        ),
        ("a: {'<<': 1}", "{a={<<=1}}"),
        ("a: &k key\n*k : 1", "{a=key key=1}"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    for (text, message) in [
        (
            "{<<: 1}",
            "'<<' requires a mapping or a list of mappings, not a single value",
        ),
        (
            "{<<: [{a: 1}, 2]}",
            "'<<' requires a mapping or a list of mappings, not a single value",
        ),
        (
            "{<<: }",
            "'<<' requires a mapping or a list of mappings, not an empty value",
        ),
        ("? [a]\n: 1", "a list cannot be a key"),
        (
            "a: !python/object x",
            "the tag '!python/object' is not allowed here",
        ),
        (
            "a: !!binary x",
            "the tag 'tag:yaml.org,2002:!binary' is not allowed here",
        ),
    ] {
        let problem = Tree::parse(text.as_bytes()).unwrap_err();
        assert_eq!(problem.message, message, "{text}");
    }
}

#[test]
fn the_last_of_duplicate_keys_wins_with_a_warning() {
    let tree = tree("a: 1\nb: 2\na: 3\n");
    assert_eq!(show(&tree.root.unwrap()), "{a=3 b=2}");
    assert_eq!(
        tree.warnings,
        [Problem {
            key: "a".to_owned(),
            ..Problem::at(
                Position { line: 3, column: 1 },
                "this key appears twice; the value in line 1 is ignored"
            )
        }]
    );
}

#[test]
fn syntax_errors_are_plain_sentences() {
    let texts: [&[u8]; 25] = [
        b"a: 1\nb: \xff\n",
        b"\xff\xfea\0",
        b"a: 1\n\0b: 2",
        b"a:\n\tb: 1\n",
        b"a: b: c\n",
        b"a: *.html\n",
        b"a: **/x\n",
        b"a: * x\n",
        b"a: 1\n---\nb: 2\n",
        b"a: 'x\n",
        b"a: \"\\d\"\n",
        b"a: &x [*x]\n",
        b"a: [1, 2\nb: 3\n",
        b"a: [1, 2",
        b"a: {b: 1\n",
        b"a: {b: 1",
        b"a: [\n1]\n",
        b"a: 1\n  b: 2\n",
        b"a:\n  b: 1\n c: 2\n",
        b"- a\nb: 1\n",
        b"a: 1\nb\n",
        b"a: 1\nb\nc: 2\n",
        b"a: %x\n",
        b"a: @x\n",
        b"a: !y!x 1\n",
    ];
    let mut report = String::new();
    for text in texts {
        let Problem {
            line,
            column,
            message,
            ..
        } = Tree::parse(text).unwrap_err();
        let shown = text.escape_ascii();
        report += &format!("{shown}\n  {line}:{column} {message}\n");
    }
    insta::assert_snapshot!(report);
}

#[test]
fn a_small_file_cannot_become_a_large_tree() {
    let nested = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    let mut merges = String::from("- &a {");
    for n in 0..9 {
        let items = vec![format!("*a{n}"); 10].join(",");
        laughs += &format!("a{}: &a{} [{items}]\n", n + 1, n + 1);
    }
    for n in 0..2000 {
        merges += &format!("k{n}: 1, ");
    }
    merges += "}\n";
    merges += &"- {<<: *a}\n".repeat(2000);
    let merged_twice = format!("- &a {{b: 1}}\n- {{<<: [{}]}}\n", "*a,".repeat(200_000));
    let long_texts = format!("- &a {}\n{}", "x".repeat(500_000), "- *a\n".repeat(10_000));
    let long_keys = format!(
        "- &a {}\n{}",
        "x".repeat(500_000),
        "- {*a : 1}\n".repeat(10_000)
    );
    for text in [nested, laughs, merges, merged_twice, long_texts, long_keys] {
        let result = Tree::parse(text.as_bytes());
        assert!(result.is_err(), "{}", &text[..60]);
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Tree::parse(&bytes);
        }

        #[test]
        fn arbitrary_yaml_characters_do_not_panic(text in "[-a-c:{}\\[\\]&*!|>?,#'\"%@ \\n\\t<~0-1.é]{0,80}") {
            let _ = Tree::parse(text.as_bytes());
        }

        /// An independent parser gives the same tree if both accept the text.
        #[test]
        fn another_parser_reads_the_same(text in "([ab]: ([0-9]{1,2}|x y|'q'|\\[1, 2\\]|\\{k: v\\})\\n){0,4}") {
            let ours = Tree::parse(text.as_bytes()).unwrap().root;
            if let Ok(theirs) = serde_yaml::from_str::<serde_yaml::Value>(&text) {
                prop_assert_eq!(ours.map_or_else(String::new, |node| show(&node)).replace('"', ""), plain(&theirs));
            }
        }
    }

    fn plain(value: &serde_yaml::Value) -> String {
        use serde_yaml::Value;
        match value {
            Value::Null => String::new(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            Value::Sequence(items) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                format!("[{}]", items.join(" "))
            }
            Value::Mapping(map) => {
                let entry =
                    |(key, value): (&Value, &Value)| format!("{}={}", plain(key), plain(value));
                let entries: Vec<String> = map.iter().map(entry).collect();
                format!("{{{}}}", entries.join(" "))
            }
            Value::Bool(_) | Value::Tagged(_) => "?".to_owned(),
        }
    }
}

#[test]
fn a_tab_is_reported_with_its_own_line() {
    let text = format!(
        "procedures:\n{}  - name: a\n\tscript: a.sh\n",
        "# x\n".repeat(5)
    );
    let Err(problem) = Tree::parse(text.as_bytes()) else {
        panic!("it was accepted")
    };
    assert_eq!(problem.line, 8, "{problem:?}");
    for before in [
        "a:\n  - b\n",
        "a: 1\n",
        "a:\n  b: 1\n",
        "a:\n  - {b: 1}\n\n",
    ] {
        let text = format!("{before}\tc: 1\n");
        let line = u32::try_from(before.lines().count()).unwrap() + 1;
        if let Err(problem) = Tree::parse(text.as_bytes()) {
            assert_eq!(problem.line, line, "{text:?} {problem:?}");
        }
    }
}
