//! Dropping privileges: changing to another user for good.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;

/// A user's ids.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    id: libc::uid_t,
    group: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

/// Changes all threads to the user of this name, with its groups and without capabilities, and verifies that no
/// thread can change back. Fails for root, for a process that is neither root nor this user, and if a capability or
/// group remains.
pub fn become_for_good(name: &str) -> io::Result<()> {
    let become_it = || {
        let user = User::named(name)?;
        if user.id == 0 {
            let words = "it keeps all privileges";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        if crate::process::user() == 0 {
            user.become_it()?;
        }
        user.check()
    };
    become_it().map_err(|error| {
        let why = crate::describe(&error);
        io::Error::new(error.kind(), format!("cannot become user {name}: {why}"))
    })
}

impl User {
    /// getpwnam_r(3), getgrouplist(3).
    fn named(name: &str) -> io::Result<Self> {
        let c_name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut strings = vec![0; 16 << 10];
        let mut found = std::ptr::null_mut();
        // SAFETY: the name ends with a NUL; entry and strings are live and as long as is said.
        let error = unsafe {
            libc::getpwnam_r(
                c_name.as_ptr(),
                entry.as_mut_ptr(),
                strings.as_mut_ptr(),
                strings.len(),
                &raw mut found,
            )
        };
        if found.is_null() {
            return Err(match error {
                0 => io::Error::new(io::ErrorKind::NotFound, "no such user"),
                error => io::Error::from_raw_os_error(error),
            });
        }
        // SAFETY: `found` says that the entry has been filled in.
        let (id, group) = unsafe {
            let entry = entry.assume_init_ref();
            (entry.pw_uid, entry.pw_gid)
        };
        Ok(Self {
            id,
            group,
            groups: groups_of(&c_name, group),
        })
    }

    /// Sets the groups first, which needs root: setgroups(2), setresgid(2), setresuid(2).
    fn become_it(&self) -> io::Result<()> {
        let done = |result: libc::c_int| match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the list is live and has this length. The C library changes all threads.
        done(unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) })?;
        // SAFETY: these take numbers.
        done(unsafe { libc::setresgid(self.group, self.group, self.group) })?;
        // SAFETY: as above.
        done(unsafe { libc::setresuid(self.id, self.id, self.id) })
    }

    /// Verifies that each thread has this user's ids only, no capabilities, and no way back to root.
    fn check(&self) -> io::Result<()> {
        let failed = |words: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        let threads = std::fs::read_dir("/proc/self/task")?;
        for thread in threads {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            let numbers = |field: &str| numbers(&status, field, 10);
            let is_user = numbers("Uid:") == [u64::from(self.id); 4];
            if !is_user {
                return failed("only root can become another user");
            }
            let mut groups = numbers("Groups:");
            groups.retain(|group| !self.groups.iter().any(|own| u64::from(*own) == *group));
            if numbers("Gid:") != [u64::from(self.group); 4] || !groups.is_empty() {
                return failed("a group of another user remains");
            }
            let capabilities =
                ["CapPrm:", "CapEff:", "CapAmb:"].map(|field| self::numbers(&status, field, 16));
            if capabilities.concat().iter().any(|set| *set != 0) {
                return failed("capabilities remain");
            }
        }
        // SAFETY: these take numbers. A call that succeeds is an error.
        if unsafe { libc::setresuid(0, 0, 0) } == 0 || unsafe { libc::setresgid(0, 0, 0) } == 0 {
            return failed("there is a way back to root");
        }
        Ok(())
    }
}

/// getgrouplist(3), the user's own group included.
fn groups_of(name: &CString, group: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: the name ends with a NUL; the list is live and as long as is said.
        let written = unsafe {
            libc::getgrouplist(name.as_ptr(), group, groups.as_mut_ptr(), &raw mut count)
        };
        if written >= 0 {
            groups.truncate(count.max(0) as usize);
            return groups;
        }
        // NGROUPS_MAX is 65536.
        if groups.len() > 1 << 17 {
            return vec![group];
        }
        groups.resize(groups.len() * 2, 0);
    }
}

/// Returns the numbers of a line of proc_pid_status(5).
fn numbers(status: &str, field: &str, radix: u32) -> Vec<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let words = line.unwrap_or_default().split_whitespace();
    words
        .filter_map(|word| u64::from_str_radix(word, radix).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names() {
        let root = User::named("root").unwrap();
        assert_eq!((root.id, root.group), (0, 0));
        assert!(root.groups.contains(&0));
        let missing = User::named("no-such-user").unwrap_err();
        assert_eq!(missing.to_string(), "no such user");
        assert!(become_for_good("root").is_err());
    }

    #[test]
    fn a_status_has_numbers() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGroups:\t\nCapEff:\t000001ffffffffff\n";
        assert_eq!(numbers(status, "Uid:", 10), [1, 2, 3, 4]);
        assert_eq!(numbers(status, "Groups:", 10), [0_u64; 0]);
        assert_eq!(numbers(status, "CapEff:", 16), [0x1ff_ffff_ffff]);
    }
}
