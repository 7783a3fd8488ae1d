//! Calls that are carried out and then reported as failed, as NFS does when an answer was lost and
//! the request is sent again.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::trace::{self, Point};
use super::world::World;
use super::{skip, strace_works, sweep, trace_dir};

/// Stands between the program and the C library: `LIE_CALL`, `LIE_AT` (from 1), `LIE_ERRNO`.
const LIAR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
static int count;
static int lie(const char *name, int result) {
  const char *call = getenv("LIE_CALL");
  if (!call || strcmp(call, name) || ++count != atoi(getenv("LIE_AT"))) return result;
  errno = atoi(getenv("LIE_ERRNO"));
  return -1;
}
#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
int rename(const char *from, const char *to) {
  return lie("rename", REAL("rename", const char *, const char *)(from, to));
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
  return lie("linkat", REAL("linkat", int, const char *, int, const char *, int)(a, from, b, to, flags));
}
int unlink(const char *path) {
  return lie("unlink", REAL("unlink", const char *)(path));
}
"#;

#[test]
fn calls_that_happened_and_report_failure_are_recognised() {
    let name = "lies";
    if !strace_works(name) {
        return;
    }
    let dir = trace_dir(name);
    let Some(library) = compile(&dir) else {
        return skip(name, "no C compiler");
    };
    let start = World::grown();
    let baseline = dir.join("baseline.trace");
    let calm = start.copy();
    assert_eq!(calm.traced(&["run"], &[], &baseline).code, 0);
    let expected = calm.settle(&["run"]).unwrap();

    sweep(name, &lies(&baseline), |(point, errno)| {
        let mut world = start.copy();
        world.study.env = [
            ("LD_PRELOAD", library.to_string_lossy().into_owned()),
            ("LIE_CALL", point.name.clone()),
            ("LIE_AT", point.n.to_string()),
            ("LIE_ERRNO", errno.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let said = world.call(&["run"]);
        world.study.env.clear();
        let complaint = if said.code != 0 {
            Some(format!("code {}: {}", said.code, said.err))
        } else {
            world
                .is_whole(&start)
                .and_then(|()| world.settle(&["run"]))
                .and_then(|found| found.is_like(&expected))
                .err()
        };
        complaint.map_or(Ok(()), |what| {
            Err(format!(
                "({}, {}) [{}] errno {errno}: {what}",
                point.name, point.n, point.line
            ))
        })
    });
}

/// What a repeated request finds (the name is gone, the name is there), and an error of the network.
fn lies(baseline: &Path) -> Vec<(Point, i32)> {
    const ENOENT: i32 = 2;
    const EIO: i32 = 5;
    const EEXIST: i32 = 17;
    trace::points(&trace::read(baseline))
        .into_iter()
        .filter(|point| point.line.ends_with("= 0"))
        .flat_map(|point| {
            let errors: &[i32] = match point.name.as_str() {
                "rename" => &[ENOENT, EIO],
                "linkat" => &[EEXIST],
                "unlink" => &[ENOENT],
                _ => &[],
            };
            errors.iter().map(move |errno| (point.clone(), *errno))
        })
        .collect()
}

fn compile(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("liar.c"), dir.join("liar.so"));
    std::fs::write(&source, LIAR).unwrap();
    Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .is_ok_and(|status| status.success())
        .then_some(library)
}
