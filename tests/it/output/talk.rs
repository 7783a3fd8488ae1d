//! What goes to stderr, and what happens if nobody reads on.

use super::*;

#[test]
fn a_run_ends_with_its_figures_on_stderr() {
    let (sessions, manifest) = study();
    let mut summary = RunSummary::of(&manifest);
    let mut figures = Figures {
        sessions: sessions.len(),
        submitted: 1,
        refused: vec![("freesurfer: Invalid account 'x'".to_owned(), 1)],
        ..Figures::default()
    };
    let (out, err) = shown(PIPED, |printer| {
        print_run_summary(printer, &summary, &figures)
    });
    assert_eq!(out, "");
    insta::assert_snapshot!("run_summary", err);

    let quiet = PrinterOptions {
        verbosity: Verbosity::Quiet,
        ..PIPED
    };
    let (_, err) = shown(quiet, |printer| {
        print_run_summary(printer, &summary, &figures)
    });
    insta::assert_snapshot!("run_summary_quiet", err);
    figures.refused.clear();
    summary.dry_run = true;
    let (_, err) = shown(quiet, |printer| {
        print_run_summary(printer, &summary, &figures)
    });
    assert_eq!(err, "");
    let (_, err) = shown(PIPED, |printer| {
        print_run_summary(printer, &summary, &figures)
    });
    assert!(err.starts_with("4 sessions, 11 tasks: 2 complete, 2 due, 1 would be submitted\n"));
}

#[test]
fn talk_goes_to_stderr_by_verbosity() {
    let say = |verbosity, err_color| {
        let options = PrinterOptions {
            verbosity,
            err_color,
            ..PIPED
        };
        shown(options, |printer| {
            printer.info("talk");
            printer.detail("detail");
            printer.note("note");
            printer.warning("look\nhere\u{1b}[2J");
            printer.error("error");
            printer.hint("hint");
            printer.progress(Some(3), "working").inc(1);
        })
    };
    let loud = "warning: look\nhere\\u{1b}[2J\nerror: error\nhint: hint\n";
    assert_eq!(
        say(Verbosity::Quiet, false),
        (String::new(), loud.to_owned())
    );
    let normal = format!("talk\nnote: note\n{loud}");
    assert_eq!(say(Verbosity::Normal, false).1, normal);
    let verbose = format!("talk\ndetail\nnote: note\n{loud}");
    assert_eq!(say(Verbosity::Verbose, false).1, verbose);
    insta::assert_snapshot!("talk_color", say(Verbosity::Debug, true).1);
}

#[test]
fn flags_give_the_verbosity() {
    use Verbosity::*;
    let given = [
        (false, 0),
        (false, 1),
        (false, 2),
        (false, 9),
        (true, 0),
        (true, 2),
    ];
    let want = [Normal, Verbose, Debug, Debug, Quiet, Quiet];
    assert_eq!(given.map(|(q, v)| Verbosity::from_flags(q, v)), want);
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is() {
    for (kind, fine) in [
        (io::ErrorKind::BrokenPipe, true),
        (io::ErrorKind::StorageFull, false),
    ] {
        let err = Buffer::default();
        let mut printer = Printer::new(Box::new(Broken(kind)), Box::new(err.clone()), PIPED);
        let rows = rows();
        let rows = rows.iter().collect();
        print_status(&mut printer, rows, &pipeline(), &RowsView::default()).unwrap();
        assert!(printer.is_closed());
        printer.warning("still heard");
        let end = printer.finish();
        assert_eq!(end.is_ok(), fine);
        assert_eq!(end.err().map(|e| e.kind()), (!fine).then_some(kind));
        assert_eq!(err.text(), "warning: still heard\n");
    }
}

#[test]
fn a_broken_stderr_stops_nothing() {
    let out = Buffer::default();
    let broken = Box::new(Broken(io::ErrorKind::BrokenPipe));
    let mut printer = Printer::new(Box::new(out.clone()), broken, PIPED);
    printer.warning("lost");
    printer.line("data");
    printer.finish().unwrap();
    assert_eq!(out.text(), "data\n");
}
