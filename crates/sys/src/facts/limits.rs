//! Limits of this process that the system and its control groups set.

use std::path::{Path, PathBuf};

use crate::kernel_file::{read_number, read_positive, read_text};

/// Amounts that this process may use. `None` is unlimited or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Open descriptors: `RLIMIT_NOFILE`.
    pub descriptors: Option<u64>,
    /// Memory mappings: `vm.max_map_count`.
    pub maps: Option<u64>,
    /// Threads: the least of `kernel.threads-max`, `kernel.pid_max` and the tasks that the control
    /// groups leave.
    pub threads: Option<u64>,
    /// Memory in bytes: the least of the host's memory and the limits of the control groups.
    pub memory_bytes: Option<u64>,
}

/// Reads the limits: proc(5), cgroups(7).
pub fn process_limits() -> ProcessLimits {
    let mut limits = read_limits(Path::new("/"));
    limits.descriptors = Some(crate::process::descriptor_limit());
    limits
}

/// Reads the limits that files below `root` state. In a control group's file, no number is no limit
/// (`max`).
fn read_limits(root: &Path) -> ProcessLimits {
    let read = |path: &str| read_positive(root.join(path));
    let groups = ControlGroups::read(root);
    let tasks = |directory: &Path| {
        let used = read_number(directory.join("pids.current")).unwrap_or(0);
        Some(read_number(directory.join("pids.max"))?.saturating_sub(used))
    };
    let memory = |directory: &Path| {
        let files = ["memory.max", "memory.limit_in_bytes"];
        files
            .iter()
            .find_map(|file| read_number(directory.join(file)))
    };
    ProcessLimits {
        descriptors: None,
        maps: read("proc/sys/vm/max_map_count"),
        threads: [
            read("proc/sys/kernel/threads-max"),
            read("proc/sys/kernel/pid_max"),
            groups.least("pids", tasks),
        ]
        .into_iter()
        .flatten()
        .min(),
        memory_bytes: [host_memory_bytes(root), groups.least("memory", memory)]
            .into_iter()
            .flatten()
            .min(),
    }
}

fn host_memory_bytes(root: &Path) -> Option<u64> {
    let text = read_text(root.join("proc/meminfo"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    (kib > 0).then(|| kib.saturating_mul(1 << 10))
}

/// The control groups of this process and where their file systems are mounted.
struct ControlGroups {
    /// Directory of a group and the mount point above it, for each hierarchy, with its controllers;
    /// version 2 has none here, because each group may have each of them.
    hierarchies: Vec<(Vec<String>, PathBuf, PathBuf)>,
}

impl ControlGroups {
    fn read(root: &Path) -> Self {
        let read = |path: &str| read_text(root.join(path)).unwrap_or_default();
        let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let hierarchies = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let names = controllers.split(',').filter(|name| !name.is_empty());
            let names: Vec<_> = names.map(str::to_owned).collect();
            let (mounted_root, mount_point) = mounts
                .lines()
                .find_map(|line| matching_mount(line, &names))?;
            let mount_point = root.join(mount_point.trim_start_matches('/'));
            // In a container, the path may lie outside the mounted part of the hierarchy.
            let relative = Path::new(path).strip_prefix(mounted_root);
            let directory = mount_point.join(relative.unwrap_or(Path::new("")));
            Some((names, directory, mount_point))
        });
        Self {
            hierarchies: hierarchies.collect(),
        }
    }

    /// Returns the least limit that this process's group and the groups above it state.
    fn least(&self, controller: &str, limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
        let has_controller =
            |names: &[String]| names.is_empty() || names.iter().any(|name| name == controller);
        let directories = self
            .hierarchies
            .iter()
            .filter(|(names, ..)| has_controller(names))
            .flat_map(|(_, directory, mount_point)| {
                let is_mounted = move |above: &&Path| above.starts_with(mount_point);
                directory.ancestors().take_while(is_mounted)
            });
        directories.filter_map(limit).min()
    }
}

/// Returns the root and the mount point in a line of mountinfo, if it mounts the hierarchy with
/// these controllers; without controllers, that of version 2. See proc_pid_mountinfo(5).
fn matching_mount<'a>(line: &'a str, controllers: &[String]) -> Option<(&'a str, &'a str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, mount_point) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, options) = (file_system.next()?, file_system.nth(1)?);
    let is_match = match kind {
        "cgroup2" => controllers.is_empty(),
        "cgroup" => {
            !controllers.is_empty()
                && (controllers.iter()).all(|name| options.split(',').any(|option| option == name))
        }
        _ => false,
    };
    is_match.then_some((root, mount_point))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Writes files below a new directory.
    fn file_system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const HOST: [(&str, &str); 4] = [
        ("proc/sys/vm/max_map_count", "65530\n"),
        ("proc/sys/kernel/threads-max", "192729\n"),
        ("proc/sys/kernel/pid_max", "32768\n"),
        (
            "proc/meminfo",
            "MemTotal:       1048576 kB\nMemFree: 1 kB\n",
        ),
    ];

    #[test]
    fn the_least_limit_of_host_and_groups_applies() {
        let v2 = [
            ("proc/self/cgroup", "0::/outer/inner\n"),
            (
                "proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            ),
            ("sys/fs/cgroup/outer/inner/pids.max", "max\n"),
            ("sys/fs/cgroup/outer/pids.max", "1000\n"),
            ("sys/fs/cgroup/outer/pids.current", "100\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "268435456\n"),
            ("sys/fs/cgroup/outer/memory.max", "max\n"),
        ];
        // The group's path is that outside the container, which sees its own group as the root.
        let v1 = [
            ("proc/self/cgroup", "8:cpu,pids:/\n4:memory:/docker/1\n"),
            (
                "proc/self/mountinfo",
                "31 23 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,cpu,pids\n\
                 32 23 0:28 /other /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/pids/pids.max", "500\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        for (groups, threads, memory_bytes) in [
            (&v2[..], 900, 256 << 20),
            (&v1[..], 500, 1 << 30),
            (&[][..], 32768, 1 << 30),
        ] {
            let files = [&HOST[..], groups].concat();
            let root = file_system(&files);
            let expected = ProcessLimits {
                descriptors: None,
                maps: Some(65530),
                threads: Some(threads),
                memory_bytes: Some(memory_bytes),
            };
            assert_eq!(read_limits(root.path()), expected);
        }
    }

    #[test]
    fn unusable_files_set_no_limit() {
        for (number, memory) in [
            ("", "MemTotal: many kB"),
            ("0\n", "MemTotal: 0 kB\n"),
            ("x", "0"),
        ] {
            let root = file_system(&[
                ("proc/sys/vm/max_map_count", number),
                ("proc/sys/kernel/threads-max", number),
                ("proc/sys/kernel/pid_max", number),
                ("proc/meminfo", memory),
                ("proc/self/cgroup", "x\n1:\n0::/a\n"),
                ("proc/self/mountinfo", "- \n1 2 3 - cgroup2\n"),
            ]);
            let limits = read_limits(root.path());
            assert_eq!(limits, ProcessLimits::default(), "{number:?}");
        }
        assert!(process_limits().descriptors.is_some());
    }
}
