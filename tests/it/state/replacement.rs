//! Replacement on disk: access rights, left-overs, full and read-only file systems, races.
//! Needs root for groups, other users and mounts; says so loudly where it is not.
#![expect(
    clippy::disallowed_methods,
    reason = "mounts small file systems and looks into directories"
)]

use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Gid, Uid, XattrFlags};
use snbb_scheduler::base::durable::{ReplaceError, Replacement, remove_leftovers};
use snbb_scheduler::store::state_file::{StateError, Store};

use super::{full_row, locked, saved};
use crate::harness::disk::SmallDisk;

/// A content is its bytes here.
fn identify(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn replace(target: &Path, before: Option<&[u8]>, after: &[u8]) -> Result<(), ReplaceError> {
    let backup = target.with_extension("bak");
    let (before, after) = (before.map(<[u8]>::to_vec), after.to_vec());
    Replacement {
        target,
        backup: Some(&backup),
        bytes: &after,
        before: before.as_ref(),
        after: &after,
        identify: &identify,
    }
    .run()
}

fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: needs root");
    }
    root
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_old_file_stays_under_its_second_name() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    assert_eq!(names(directory.path()), ["state"]);
    replace(&target, Some(b"one"), b"two").unwrap();
    replace(&target, Some(b"two"), b"three").unwrap();
    assert_eq!(names(directory.path()), ["state", "state.bak"]);
    assert_eq!(
        std::fs::read(directory.path().join("state.bak")).unwrap(),
        b"two"
    );
}

/// A crash between the two renames leaves both names on one file; the rename of the next pass
/// then does nothing and leaves its source.
#[test]
fn two_names_of_one_file_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    std::fs::hard_link(&target, directory.path().join("state.bak")).unwrap();
    replace(&target, Some(b"one"), b"two").unwrap();
    assert_eq!(names(directory.path()), ["state", "state.bak"]);
    assert_eq!(
        std::fs::read(directory.path().join("state.bak")).unwrap(),
        b"one"
    );
}

#[test]
fn another_content_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    for before in [None, Some(&b"other"[..])] {
        let error = replace(&target, before, b"two").unwrap_err();
        assert!(matches!(error, ReplaceError::Changed(_)));
    }
    assert_eq!(names(directory.path()), ["state"]);
    assert_eq!(std::fs::read(&target).unwrap(), b"one");
}

/// Without any lock, of those who replace the same content at once exactly one succeeds.
#[test]
fn of_many_at_once_one_wins() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("state");
    for round in 0..50_u32 {
        let before = (round > 0).then(|| std::fs::read(&target).unwrap());
        let barrier = std::sync::Barrier::new(8);
        let wins: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let (target, before, barrier) = (&target, &before, &barrier);
                    scope.spawn(move || {
                        let after = format!("{round} {n}");
                        barrier.wait();
                        match replace(target, before.as_deref(), after.as_bytes()) {
                            Ok(()) => 1,
                            Err(ReplaceError::Changed(_)) => 0,
                            Err(error) => panic!("{error}"),
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(wins, 1, "round {round}");
    }
    assert_eq!(names(directory.path()), ["state", "state.bak"]);
}

#[test]
fn mode_group_and_owner_stay() {
    if !is_root("mode_group_and_owner_stay") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    rustix::fs::chown(
        &target,
        Some(Uid::from_raw(1234)),
        Some(Gid::from_raw(4321)),
    )
    .unwrap();
    std::fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
    replace(&target, Some(b"one"), b"two").unwrap();
    let now = target.metadata().unwrap();
    assert_eq!(
        (now.mode() & 0o7777, now.uid(), now.gid()),
        (0o640, 1234, 4321)
    );
}

#[test]
fn a_new_file_follows_the_setgid_bit_of_its_directory() {
    if !is_root("a_new_file_follows_the_setgid_bit_of_its_directory") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    rustix::fs::chown(directory.path(), None, Some(Gid::from_raw(4321))).unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o2775)).unwrap();
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    let plain = directory.path().join("plain");
    File::create(&plain).unwrap();
    let (now, plain) = (target.metadata().unwrap(), plain.metadata().unwrap());
    assert_eq!((now.mode(), now.gid()), (plain.mode(), 4321));
}

#[test]
fn the_access_list_stays() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    // Version 2; then tag, rights and id of: owner rw, user 1234 r, group r, mask r, others none.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, rights, id) in [
        (1_u16, 6_u16, none),
        (2, 4, 1234),
        (4, 4, none),
        (0x10, 4, none),
        (0x20, 0, none),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(rights.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    const ACL: &str = "system.posix_acl_access";
    if let Err(error) = rustix::fs::setxattr(&target, ACL, &acl, XattrFlags::empty()) {
        eprintln!("SKIPPED the_access_list_stays: no access lists here ({error})");
        return;
    }
    replace(&target, Some(b"one"), b"two").unwrap();
    let mut found = vec![0; 1024];
    let length = rustix::fs::getxattr(&target, ACL, found.as_mut_slice()).unwrap();
    assert_eq!(found[..length], acl);
    assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o640);
}

#[test]
fn leftovers_of_the_dead_are_removed_once_they_are_old() {
    let directory = tempfile::tempdir().unwrap();
    let leftovers = [
        "state.parquet.tmp-host.1.1",
        "state.parquet.bak.tmp-host.1.2",
        "state.attempts.parquet.tmp-host.1.3",
    ];
    let others = ["other.parquet.tmp-host.1.1", "state.parquet.tmp"];
    for name in leftovers.iter().chain(&others) {
        std::fs::write(directory.path().join(name), "").unwrap();
    }
    let path = directory.path().join("state.parquet");
    saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let is_there = |name: &&str| directory.path().join(name).try_exists().unwrap();
    assert!(leftovers.iter().all(&is_there), "they are young");

    let paths = Store::at(&path).unwrap().paths;
    let files: [&Path; 3] = [&paths.state, &paths.backup, &paths.attempts];
    remove_leftovers(&files, std::time::Duration::ZERO);
    assert!(!leftovers.iter().any(&is_there));
    assert!(others.iter().all(&is_there) && is_there(&"state.parquet"));
}

/// Runs work as a user without rights. Only this thread changes its user.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                rustix::thread::set_thread_groups(&[]).unwrap();
                let (group, user) = (Gid::from_raw(65534), Uid::from_raw(65534));
                rustix::thread::set_thread_res_gid(group, group, group).unwrap();
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                work()
            })
            .join()
            .unwrap()
    })
}

#[test]
fn a_file_that_may_not_be_read_or_replaced_is_an_error_with_a_hint() {
    if !is_root("a_file_that_may_not_be_read_or_replaced_is_an_error_with_a_hint") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("state.parquet");
    saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let before = std::fs::read(&path).unwrap();

    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let error = as_nobody(|| {
        assert_eq!(Store::at(&path).unwrap().read().unwrap().len(), 1);
        replace(&path, Some(&before), b"other").unwrap_err()
    });
    assert!(error.to_string().starts_with("cannot create /"), "{error}");

    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let error = as_nobody(|| Store::at(&path).unwrap().read().unwrap_err());
    assert!(
        matches!(&error, StateError::Io(error) if error.source.kind() == io::ErrorKind::PermissionDenied),
        "{error}"
    );
    insta::with_settings!({filters => [(directory.path().to_str().unwrap(), "[dir]")]}, {
        insta::assert_snapshot!(format!("{error}\n{}", error.hint().unwrap()));
    });
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_full_file_system_leaves_the_old_state_and_no_temporary_file() {
    let directory = tempfile::tempdir().unwrap();
    let test = "a_full_file_system_leaves_the_old_state_and_no_temporary_file";
    let Some(_mounted) = SmallDisk::mount(test, directory.path(), "size=64k") else {
        return;
    };
    let path = directory.path().join("state.parquet");
    let mut state = saved(&path, vec![full_row("sub-0001", "bids", 1)]);
    let before = std::fs::read(&path).unwrap();
    for n in 0..10_000 {
        state.put(full_row(&format!("sub-{n:05}"), "bids", n * 7919));
    }
    let error = locked(&path).save(&mut state).unwrap_err();
    let (text, hint) = (error.to_string(), error.hint().unwrap());
    assert!(
        matches!(&error, StateError::Io(error) if error.source.kind() == io::ErrorKind::StorageFull),
        "{text}"
    );
    assert!(text.contains(directory.path().to_str().unwrap()), "{text}");
    insta::assert_snapshot!(hint);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(
        names(directory.path())
            .iter()
            .all(|name| !name.contains(".tmp-"))
    );
    assert!(state.is_changed(), "nothing is forgotten");
}

#[test]
fn a_read_only_file_system_leaves_the_old_state() {
    let directory = tempfile::tempdir().unwrap();
    let test = "a_read_only_file_system_leaves_the_old_state";
    let Some(mounted) = SmallDisk::mount(test, directory.path(), "size=1m") else {
        return;
    };
    let target = directory.path().join("state");
    replace(&target, None, b"one").unwrap();
    mounted.remount("ro");
    let error = replace(&target, Some(b"one"), b"two").unwrap_err();
    assert!(
        matches!(&error, ReplaceError::Io { error, replaced: false } if error.source.kind() == io::ErrorKind::ReadOnlyFilesystem),
        "{error}"
    );
    assert_eq!(std::fs::read(&target).unwrap(), b"one");
    mounted.remount("rw");
    replace(&target, Some(b"one"), b"two").unwrap();
}
