use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::*;

/// An access control list that gives user 1234 `rw`, in the kernel's form.
fn acl() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, u32::MAX),
        (2, 6, 1234),
        (4, 4, u32::MAX),
        (0x10, 6, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn e19_access_control_lists_outlast_a_replacement() {
    const ACCESS: &str = "system.posix_acl_access";
    let held = |path: &Path| {
        let mut bytes = vec![0; 1024];
        let length = getxattr(path, ACCESS, bytes.as_mut_slice()).unwrap_or(0);
        bytes.truncate(length);
        bytes
    };
    let identify = |file: &File| Ok(file.metadata()?.len());
    for is_default in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (state, heartbeat) = (dir.path().join("state"), dir.path().join("heartbeat"));
        let set = |path: &Path, name: &str| setxattr(path, name, &acl(), XattrFlags::empty());
        if is_default && set(dir.path(), "system.posix_acl_default").is_err() {
            eprintln!("SKIPPED: no access control lists here");
            return;
        }
        std::fs::write(&state, "one").unwrap();
        std::fs::write(&heartbeat, "mark").unwrap();
        if !is_default {
            set(&state, ACCESS).unwrap();
            set(&heartbeat, ACCESS).unwrap();
        }
        let before = held(&state);
        assert!(!before.is_empty());
        for (from, to) in [("one", "three"), ("three", "2")] {
            Replacement {
                target: &state,
                backup: Some(&dir.path().join("backup")),
                bytes: to.as_bytes(),
                before: Some(&(from.len() as u64)),
                after: &(to.len() as u64),
                identify: &identify,
            }
            .run()
            .unwrap();
            overwrite(&heartbeat, b"mark", "mark").unwrap();
        }
        assert_eq!(held(&state), before);
        assert_eq!(held(&heartbeat), before);
        assert_eq!(held(&dir.path().join("backup")), before);
    }
}
