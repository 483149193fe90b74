//! What a master may have sent to it: files below the directories that the slave was told of.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::restricted_dir::Root;

use crate::Group;
use crate::strand::Files;
use crate::wire::Refusal;

/// As many files are opened for a group; each is a descriptor for as long as its master is served.
const MOST: usize = 64;

/// The directories of `--allow-dir`.
#[derive(Debug, Default)]
pub struct Shelf(Vec<Root>);

impl Shelf {
    /// Opens them; an error says which cannot be.
    pub fn open(directories: &[PathBuf]) -> io::Result<Self> {
        Root::open_all("--allow-dir", directories).map(Self)
    }

    /// What a group's sendfiles send. No master that reads a profile asks a slave for that, since what
    /// it receives is written there; but one may.
    pub(super) fn files(&self, group: &Group) -> Result<Arc<Files>, Refusal> {
        let mut all = Files::new();
        let mut room = MOST;
        for flowop in group.flowops().filter(|flowop| flowop.kind.sends_files()) {
            let directory = Path::new(&flowop.directory);
            if all.iter().any(|(known, _)| known == directory) {
                continue;
            }
            let refused = |why: &str| {
                let name = directory.display();
                Refusal::Workorder(format!("dir={name}: {why}"))
            };
            if room == 0 {
                return Err(refused(&format!(
                    "the directories before it have all {MOST} files that a group may send from"
                )));
            }
            let files = self
                .below(directory, room)
                .map_err(|error| refused(&sys::describe(&error)))?
                .ok_or_else(|| refused("it is below no directory of --allow-dir"))?;
            if files.is_empty() {
                return Err(refused("no readable file"));
            }
            room -= files.len();
            all.push((directory.to_owned(), files));
        }
        Ok(Arc::new(all))
    }

    /// The first `most`; `None` where it is below none of them.
    fn below(&self, directory: &Path, most: usize) -> io::Result<Option<Vec<File>>> {
        let mut roots = self.0.iter();
        let files = roots.find_map(|root| root.files(directory, most).transpose());
        files.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, Kind};

    fn sending(directories: &[&Path]) -> Group {
        Group::of(directories.iter().map(|directory| Flowop {
            directory: directory.display().to_string(),
            ..Flowop::new(Kind::Sendfile)
        }))
    }

    #[test]
    fn a_group_has_so_many_files_whatever_it_calls_their_directories() {
        let allowed = tempfile::tempdir().unwrap();
        let allowed = allowed.path().canonicalize().unwrap();
        let [many, few] = ["many", "few"].map(|name| allowed.join(name));
        for (directory, count) in [(&many, MOST - 1), (&few, 2)] {
            std::fs::create_dir(directory).unwrap();
            for number in 0..count {
                std::fs::write(directory.join(number.to_string()), "x").unwrap();
            }
        }
        let shelf = Shelf::open(std::slice::from_ref(&allowed)).unwrap();
        let counts = |directories: &[&Path]| -> Result<Vec<usize>, Refusal> {
            let files = shelf.files(&sending(directories))?;
            Ok(files.iter().map(|(_, files)| files.len()).collect())
        };
        let same = ["few", "few/", "few/.", "./few", "/few"].map(|name| {
            let text = format!("{}/{name}", allowed.display());
            PathBuf::from(text)
        });
        let same: Vec<_> = same.iter().map(PathBuf::as_path).collect();
        assert_eq!(counts(&same).unwrap(), [2]);
        assert_eq!(counts(&[&many, &few]).unwrap(), [MOST - 1, 1]);
        let again = few.join("../few");
        let Err(Refusal::Workorder(why)) = counts(&[&many, &few, &again]) else {
            panic!("too many");
        };
        assert!(why.contains("all 64 files"), "{why}");
    }
}
