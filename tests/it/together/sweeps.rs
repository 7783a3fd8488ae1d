//! Many rounds of calls at once.

use super::*;

/// With the lock, on two to eight login nodes.
#[test]
fn calls_on_several_login_nodes_submit_each_task_once() {
    if !has_namespaces() {
        return tell("SKIPPED calls_on_several_login_nodes: needs root and namespaces");
    }
    let since = Instant::now();
    let (mut processes, mut refused, mut waited, mut jobs) = (0, 0, 0, 0);
    let mut named = 0;
    let mut growing = Growing::new();
    let rounds = ROUNDS;
    for round in 0..rounds {
        if growing.is_full() {
            growing = Growing::new();
        }
        growing.grow();
        let count = 2 + round % 7;
        let calls: Vec<Call> = (0..count)
            .map(|node| {
                let by = on_node(&format!("login{node}"));
                let by: Vec<&str> = by.iter().map(String::as_str).collect();
                let timeout = if node % 2 == 0 { "5m" } else { "0s" };
                Call::start(
                    &growing.study,
                    &by,
                    &["run", "--lock-timeout", timeout],
                    &[],
                )
            })
            .collect();
        let mut submitted = 0;
        for (node, call) in calls.into_iter().enumerate() {
            let said = call.end();
            processes += 1;
            match said.code {
                0 if said.count("submitted") == 0 => waited += 1,
                0 => submitted += 1,
                4 if node % 2 == 1 => {
                    refused += 1;
                    let lines = errors(&said);
                    // Nobody is named if it was released between the last look and the last try, and taken again.
                    named += usize::from(lines[0].contains("login"));
                    assert!(
                        lines[1..].iter().all(|line| line.starts_with("hint")),
                        "{lines:?}"
                    );
                }
                code => panic!("exit code {code}: {}", said.err),
            }
        }
        assert_eq!(submitted, 1, "one call does all the work of a round");
        growing.is_exact();
        jobs += NEW;
    }
    assert!(2 * named >= refused, "{named} of {refused} name the holder");
    tell(&format!(
        "several login nodes: {rounds} rounds, {processes} calls: {jobs} jobs, {waited} waited, {refused} left with exit code 4, {:.1} s",
        since.elapsed().as_secs_f64()
    ));
}

/// With the lock, on one host, and with calls that are killed at any moment.
#[test]
fn killed_calls_lose_nothing_and_submit_nothing_twice() {
    let since = Instant::now();
    let mut numbers = Numbers(0x5eed);
    let (mut processes, mut killed, mut jobs) = (0, 0, 0);
    let mut growing = Growing::new();
    let rounds = rounds(10);
    for round in 0..rounds {
        growing.grow();
        let count = 2 + round % 4;
        let mut calls: Vec<Call> = (0..count)
            .map(|at| {
                std::thread::sleep(Duration::from_millis(numbers.below(50)));
                let only_looks = at + 1 < count && numbers.below(3) == 0;
                let command = if only_looks { "monitor" } else { "run" };
                let arguments = [command, "--lock-timeout", "5m"];
                Call::start(&growing.study, &[], &arguments, &[])
            })
            .collect();
        // The last one is left alone: whatever the others leave must not stop it.
        for call in calls.iter_mut().take(count - 1) {
            std::thread::sleep(Duration::from_millis(numbers.below(250)));
            call.kill(numbers.below(2) == 0);
        }
        for (at, call) in calls.into_iter().enumerate() {
            let said = call.end();
            processes += 1;
            if said.code == -1 {
                killed += 1;
            } else {
                assert_eq!(said.code, 0, "{}", said.err);
            }
            assert!(at < count - 1 || said.code == 0, "{}", said.err);
        }
        growing.look();
        if growing.is_full() || round + 1 == rounds {
            // Two clean answers, settle_time apart, release what never became a job.
            growing.study.ok(&["run"]);
            std::thread::sleep(Duration::from_millis(2100));
            growing.study.ok(&["run"]);
            growing.is_exact();
            let again = growing.study.ok(&["run"]);
            assert_eq!(again.count("submitted"), 0, "{}", again.err);
            jobs += growing.tasks();
            growing = Growing::new();
        }
    }
    tell(&format!(
        "killed calls: {rounds} rounds, {processes} calls, {killed} of them killed: {jobs} jobs, {:.1} s",
        since.elapsed().as_secs_f64()
    ));
}

/// With a lock that locks nothing: nothing is lost, and what is doubled is shown.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "debug builds only")]
fn a_useless_lock_loses_no_job() {
    let since = Instant::now();
    let mut numbers = Numbers(0xbad);
    let (mut processes, mut losers, mut jobs, mut doubled) = (0, 0, 0, 0);
    let mut growing = Growing::new();
    let rounds = ROUNDS;
    for round in 0..rounds {
        if growing.is_full() {
            growing = Growing::new();
        }
        growing.grow();
        let count = 2 + round % 7;
        let calls: Vec<Call> = (0..count)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(numbers.below(30)));
                Call::start(&growing.study, &[], &["run", USELESS_LOCK], &[])
            })
            .collect();
        for call in calls {
            let said = call.end();
            processes += 1;
            match said.code {
                0 => {}
                1 => {
                    losers += 1;
                    assert!(gave_way(&said), "{}", said.err);
                }
                code => panic!("exit code {code}: {}", said.err),
            }
        }
        let next = growing.study.ok(&["run"]);
        doubled += all_are_known(&mut growing, &next);
    }
    jobs += rounds * NEW;
    tell(&format!(
        "useless lock: {rounds} rounds, {processes} calls, {losers} of them left with exit code 1: {jobs} tasks, {doubled} doubled and shown, {:.1} s",
        since.elapsed().as_secs_f64()
    ));
}
