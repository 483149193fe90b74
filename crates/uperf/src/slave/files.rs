//! Files that masters may request: those below the directories of `--allow-dir`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::restricted_dir::RestrictedDir;

use crate::GroupSpec;
use crate::strand::Files;
use crate::wire::WorkRefusal;

/// Maximum number of open files per group. Each uses a descriptor until the end of the session.
const MAX_FILES: usize = 64;

/// The directories of `--allow-dir`.
#[derive(Debug, Default)]
pub struct ServedFiles(Vec<RestrictedDir>);

impl ServedFiles {
    /// Opens the directories. An error names the directory that cannot be opened.
    pub fn open(directories: &[PathBuf]) -> io::Result<Self> {
        RestrictedDir::open_all("--allow-dir", directories).map(Self)
    }

    /// Opens the files of a group's sendfile flowops. Masters do not request sendfile for a
    /// profile, because the counterpart of a master's read is write. But the protocol allows it.
    pub(super) fn open_files(&self, group: &GroupSpec) -> Result<Arc<Files>, WorkRefusal> {
        let mut opened = Files::new();
        let mut files_left = MAX_FILES;
        for flowop in group.flowops().filter(|flowop| flowop.kind.sends_files()) {
            let directory = Path::new(&flowop.directory);
            if opened.iter().any(|(known, _)| known == directory) {
                continue;
            }
            let refused = |reason: &str| {
                let name = directory.display();
                WorkRefusal::Workorder(format!("dir={name}: {reason}"))
            };
            if files_left == 0 {
                return Err(refused(&format!(
                    "a group may send at most {MAX_FILES} files"
                )));
            }
            let files = self
                .open_directory(directory, files_left)
                .map_err(|error| refused(&sys::describe(&error)))?
                .ok_or_else(|| refused("it is not below a directory of --allow-dir"))?;
            if files.is_empty() {
                return Err(refused("no readable file"));
            }
            files_left -= files.len();
            opened.push((directory.to_owned(), files));
        }
        Ok(Arc::new(opened))
    }

    /// Opens the first `max_files` files of a directory. Returns `None` if it is not below an
    /// allowed directory.
    fn open_directory(&self, directory: &Path, max_files: usize) -> io::Result<Option<Vec<File>>> {
        let mut roots = self.0.iter();
        let files = roots.find_map(|root| root.open_files(directory, max_files).transpose());
        files.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, FlowopKind};

    fn group_sending(directories: &[&Path]) -> GroupSpec {
        GroupSpec::with_flowops(directories.iter().map(|directory| Flowop {
            directory: directory.display().to_string(),
            ..Flowop::new(FlowopKind::Sendfile)
        }))
    }

    #[test]
    fn files_per_group_are_limited() {
        let allowed = tempfile::tempdir().unwrap();
        let allowed = allowed.path().canonicalize().unwrap();
        let [many, few] = ["many", "few"].map(|name| allowed.join(name));
        for (directory, count) in [(&many, MAX_FILES - 1), (&few, 2)] {
            std::fs::create_dir(directory).unwrap();
            for number in 0..count {
                std::fs::write(directory.join(number.to_string()), "x").unwrap();
            }
        }
        let served_files = ServedFiles::open(std::slice::from_ref(&allowed)).unwrap();
        let counts = |directories: &[&Path]| -> Result<Vec<usize>, WorkRefusal> {
            let files = served_files.open_files(&group_sending(directories))?;
            Ok(files.iter().map(|(_, files)| files.len()).collect())
        };
        let same = ["few", "few/", "few/.", "./few", "/few"].map(|name| {
            let text = format!("{}/{name}", allowed.display());
            PathBuf::from(text)
        });
        let same: Vec<_> = same.iter().map(PathBuf::as_path).collect();
        assert_eq!(counts(&same).unwrap(), [2]);
        assert_eq!(counts(&[&many, &few]).unwrap(), [MAX_FILES - 1, 1]);
        let other_spelling = few.join("../few");
        let Err(WorkRefusal::Workorder(reason)) = counts(&[&many, &few, &other_spelling]) else {
            panic!("too many");
        };
        assert!(reason.contains("at most 64 files"), "{reason}");
    }
}
