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

#[test]
fn clocks_that_differ_are_reported() {
    let at = |seconds: i64| DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap();
    for (other, level, part) in [
        (0, Level::Ok, "agree"),
        (1, Level::Ok, "agree"),
        (-4, Level::Ok, "agree"),
        (6, Level::Ok, "agree"),
        (7, Level::Warning, "5 s ahead of"),
        (-90, Level::Warning, "90 s behind"),
        (3600, Level::Error, "3598 s ahead of"),
        (-3600, Level::Error, "3600 s behind"),
    ] {
        let reading = [at(0), at(other), at(2)];
        let findings = testing::judged(|out| out.clock("/d", "its", reading, "why"));
        let finding = &findings[0];
        assert_eq!(finding.level, level, "{other}");
        assert!(finding.text.contains(part), "{other}: {}", finding.text);
    }
}
