//! The cost of long tables, counted in allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use polars::prelude::*;

use super::values::*;
use super::*;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe { System.realloc(memory, layout, size) }
    }
}

const COLUMNS: usize = 3;

fn table(rows: usize) -> DataFrame {
    let column = |name: &str, text: &dyn Fn(usize) -> String| {
        Column::new(name.into(), (0..rows).map(text).collect::<Vec<_>>())
    };
    let columns = vec![
        column("subject", &|at| format!("sub-{at:06}")),
        column("status", &|at| ["complete", "failed"][at % 2].to_owned()),
        column("failure", &|_| "exit code 1 ".repeat(10)),
    ];
    DataFrame::new(rows, columns).unwrap()
}

/// Returns the output, and the number of allocations of printing a table.
fn printed(rows: usize, options: PrinterOptions) -> (String, usize) {
    let frame = table(rows);
    let mut allocations = 0;
    let (out, _) = shown(options, |printer| {
        let before = ALLOCATIONS.get();
        printer
            .frame(&frame, Format::Table, &["status"], &[])
            .unwrap();
        allocations = ALLOCATIONS.get() - before;
    });
    (out, allocations)
}

/// Cells that were copied or laid out one by one would need at least an allocation each.
#[test]
fn a_long_table_needs_less_than_an_allocation_per_cell() {
    let rows = 20_000;
    let wide = PrinterOptions {
        width: Some(200),
        ..colored()
    };
    for (options, line) in [
        (PIPED, "sub-000001  failed    exit code 1"),
        (wide, "sub-000001  \\e[91m✗ failed    \\e[0mexit code 1"),
        // Too narrow: so long a table is not wrapped.
        (terminal(80), "sub-000001 failed   exit code 1"),
    ] {
        let (out, allocations) = printed(rows, options);
        assert_eq!(out.lines().count(), rows + 1);
        assert!(out.lines().nth(2).unwrap().starts_with(line), "{line}");
        assert!(
            allocations < COLUMNS * rows,
            "{allocations} allocations for {rows} rows: {line}"
        );
    }
}

#[test]
fn a_short_table_is_wrapped() {
    let (out, _) = printed(2, terminal(80));
    assert!(out.lines().all(|line| line.len() <= 80), "{out}");
    assert!(out.lines().count() > 3, "{out}");
}

#[test]
fn wide_characters_keep_columns_aligned() {
    let column = |name: &str, texts: [&str; 2]| Column::new(name.into(), texts);
    let columns = vec![column("a", ["漢字", "ab"]), column("b", ["x", "y"])];
    let frame = DataFrame::new(2, columns).unwrap();
    for options in [PIPED, terminal(80)] {
        let (out, _) = shown(options, |printer| {
            printer.frame(&frame, Format::Table, &[], &[]).unwrap();
        });
        assert_eq!(out, "a     b\n漢字  x\nab    y\n");
    }
}
