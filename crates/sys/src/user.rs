//! Dropping privileges: permanent change to another user.

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

/// Changes all threads to this user, with its groups and without capabilities, and verifies that no
/// thread can change back. Fails for root, for a process that is neither root nor this user, and if
/// a capability or group remains. Call [`forbid_new_privileges`] before.
pub fn drop_to_user(name: &str) -> io::Result<()> {
    let switch = || {
        let user = User::look_up(name)?;
        if user.id == 0 {
            let message = "it keeps all privileges";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if crate::process::effective_user_id() == 0 {
            user.switch_all_threads()?;
        }
        user.verify_threads()
    };
    switch().map_err(|error| {
        let reason = crate::describe(&error);
        io::Error::new(error.kind(), format!("cannot become user {name}: {reason}"))
    })
}

/// Forbids that a program that this process executes gains privileges, and drops the capability
/// bounding set: PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, prctl(2). Call it before the process starts
/// a second thread, because it affects this thread and those that it starts.
///
/// The process keeps its own capabilities. Keeps the bounding set if this process may not change
/// it.
pub fn forbid_new_privileges() -> io::Result<()> {
    /// Capabilities have numbers from 0 to 63.
    const MAX_CAPABILITIES: libc::c_ulong = 64;
    let unused: libc::c_ulong = 0;
    for capability in 0..MAX_CAPABILITIES {
        // SAFETY: this takes numbers. A number without a capability is an error without effect.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, unused, unused, unused) };
    }
    let enabled: libc::c_ulong = 1;
    // SAFETY: this takes numbers.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, enabled, unused, unused, unused) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl User {
    /// Looks up a user by name: getpwnam_r(3), getgrouplist(3).
    fn look_up(name: &str) -> io::Result<Self> {
        let c_name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut strings = vec![0; 16 << 10];
        let mut result = std::ptr::null_mut();
        // SAFETY: the name ends with a NUL; entry and strings are live and have the given lengths.
        let error = unsafe {
            libc::getpwnam_r(
                c_name.as_ptr(),
                entry.as_mut_ptr(),
                strings.as_mut_ptr(),
                strings.len(),
                &raw mut result,
            )
        };
        if result.is_null() {
            return Err(match error {
                0 => io::Error::new(io::ErrorKind::NotFound, "no such user"),
                error => io::Error::from_raw_os_error(error),
            });
        }
        // SAFETY: `result` is not null, so the entry has been filled in.
        let (id, group) = unsafe {
            let entry = entry.assume_init_ref();
            (entry.pw_uid, entry.pw_gid)
        };
        Ok(Self {
            id,
            group,
            groups: group_list(&c_name, group),
        })
    }

    /// Changes all threads to this user. It sets the groups first, which needs root: setgroups(2),
    /// setresgid(2), setresuid(2).
    fn switch_all_threads(&self) -> io::Result<()> {
        let check_result = |result: libc::c_int| match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the list is live and has this length. The C library changes all threads.
        check_result(unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) })?;
        // SAFETY: these take numbers.
        check_result(unsafe { libc::setresgid(self.group, self.group, self.group) })?;
        // SAFETY: as above.
        check_result(unsafe { libc::setresuid(self.id, self.id, self.id) })
    }

    /// Verifies that each thread has only this user's ids, no capabilities, and no way back to
    /// root.
    fn verify_threads(&self) -> io::Result<()> {
        let failed = |message: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        let threads = std::fs::read_dir("/proc/self/task")?.collect::<io::Result<Vec<_>>>()?;
        if threads.is_empty() {
            return failed("/proc/self/task shows no threads");
        }
        for thread in threads {
            let status = std::fs::read_to_string(thread.path().join("status"))?;
            let decimals = |field: &str| numbers(&status, field, 10);
            let is_user = decimals("Uid:") == [u64::from(self.id); 4];
            if !is_user {
                return failed("only root can become another user");
            }
            let mut groups = decimals("Groups:");
            groups.retain(|group| {
                !self
                    .groups
                    .iter()
                    .any(|allowed| u64::from(*allowed) == *group)
            });
            if decimals("Gid:") != [u64::from(self.group); 4] || !groups.is_empty() {
                return failed("a group of another user remains");
            }
            let capabilities =
                ["CapPrm:", "CapEff:", "CapAmb:"].map(|field| numbers(&status, field, 16));
            // Old kernels have no ambient capabilities.
            let are_reported = capabilities[..2].iter().all(|set| set.len() == 1);
            if !are_reported || capabilities.concat().iter().any(|set| *set != 0) {
                return failed("capabilities remain");
            }
            if decimals("NoNewPrivs:") != [1] {
                return failed("a program that it executes may gain privileges");
            }
        }
        // SAFETY: these take numbers. A call that succeeds is an error.
        if unsafe { libc::setresuid(0, 0, 0) } == 0 || unsafe { libc::setresgid(0, 0, 0) } == 0 {
            return failed("there is a way back to root");
        }
        Ok(())
    }
}

/// Returns the groups of a user, including the primary group: getgrouplist(3).
fn group_list(name: &CString, group: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: the name ends with a NUL; the list is live and has the given length.
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
    fn users_are_looked_up_by_name() {
        let root = User::look_up("root").unwrap();
        assert_eq!((root.id, root.group), (0, 0));
        assert!(root.groups.contains(&0));
        let missing = User::look_up("no-such-user").unwrap_err();
        assert_eq!(missing.to_string(), "no such user");
        assert!(drop_to_user("root").is_err());
    }

    #[test]
    fn status_numbers_are_parsed() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGroups:\t\nCapEff:\t000001ffffffffff\n";
        assert_eq!(numbers(status, "Uid:", 10), [1, 2, 3, 4]);
        assert_eq!(numbers(status, "Groups:", 10), [0_u64; 0]);
        assert_eq!(numbers(status, "CapEff:", 16), [0x1ff_ffff_ffff]);
    }
}
