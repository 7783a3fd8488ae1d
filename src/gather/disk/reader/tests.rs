use super::*;

fn read(path: &Path) -> Dir {
    Reader::default().dir(path)
}

fn stat(path: &Path) -> Result<Option<Stat>, Unreadable> {
    Reader::default().stat(path)
}

fn head(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Unreadable> {
    Reader::default().head(path, limit, false)
}

#[test]
fn only_missing_paths_are_absent() {
    let tmp = tempfile::tempdir().unwrap();
    let at = |name: &str| tmp.path().join(name);
    std::fs::write(at("file"), "text").unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    for absent in ["nothing", "file", "file/below"] {
        assert!(matches!(read(&at(absent)), Dir::Absent), "{absent}");
        assert!(absent == "file" || stat(&at(absent)).unwrap().is_none());
    }
    std::os::unix::fs::symlink("file", at("to-file")).unwrap();
    assert!(matches!(read(&at("to-file")), Dir::Absent));
    for nowhere in ["loop", "loop/below"] {
        assert!(matches!(read(&at(nowhere)), Dir::Failed(_)), "{nowhere}");
        assert_eq!(stat(&at(nowhere)).unwrap_err().path, at("loop"));
    }
    assert_eq!(head(tmp.path(), 10), Ok(None), "a directory has no text");
    assert_eq!(head(&at("file"), 2), Ok(Some(b"te".to_vec())));
    for errno in [Errno::ACCESS, Errno::IO, Errno::MFILE] {
        spy::fail(at("x"), errno, 1);
        let Dir::Failed(unreadable) = read(&at("x")) else {
            panic!("{errno:?}")
        };
        assert_eq!(unreadable.path, at("x"));
        assert!(!unreadable.error.contains("os error"));
    }
}

#[test]
fn a_pipe_does_not_block() {
    let tmp = tempfile::tempdir().unwrap();
    let pipe = tmp.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert_eq!(head(&pipe, 10), Ok(Some(Vec::new())));
    assert!(matches!(read(&pipe), Dir::Absent));
}

#[test]
fn a_stale_handle_is_tried_once_more() {
    let tmp = tempfile::tempdir().unwrap();
    spy::fail(tmp.path(), Errno::STALE, 1);
    assert!(matches!(read(tmp.path()), Dir::There(_)));
    spy::fail(tmp.path(), Errno::STALE, 2);
    let Dir::Failed(unreadable) = read(tmp.path()) else {
        panic!()
    };
    assert_eq!(unreadable.error, "Stale file handle");
    spy::fail(tmp.path(), Errno::STALE, 2);
    assert!(stat(tmp.path()).is_err());
}
