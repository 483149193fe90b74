//! What a master may have sent to it: files below the directories that the slave was told of.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::beneath::Root;

use crate::strand::Files;
use crate::wire::Refusal;
use crate::{Group, Kind};

/// As many files of a directory are opened; each is a descriptor for as long as its master is served.
const MOST: usize = 64;

/// The directories of `--allow-dir`.
#[derive(Debug, Default)]
pub struct Shelf(Vec<Root>);

impl Shelf {
    /// Opens them; an error says which cannot be.
    pub fn open(directories: &[PathBuf]) -> io::Result<Self> {
        let roots = directories.iter().map(|directory| {
            Root::open(directory).map_err(|error| {
                let words = format!("--allow-dir {}: {error}", directory.display());
                io::Error::new(error.kind(), words)
            })
        });
        roots.collect::<io::Result<_>>().map(Self)
    }

    /// What a group's sendfiles send. No master that reads a profile asks a slave for that, since what
    /// it receives is written there; but one may.
    pub(super) fn files(&self, group: &Group) -> Result<Arc<Files>, Refusal> {
        let mut all = Files::new();
        let flowops = group.transactions.iter().flat_map(|txn| &txn.flowops);
        let sending = |kind| matches!(kind, Kind::Sendfile | Kind::Sendfilev);
        for flowop in flowops.filter(|flowop| sending(flowop.kind)) {
            let directory = &flowop.directory;
            if all.iter().any(|(known, _)| known == directory) {
                continue;
            }
            let refused = |why: &str| Refusal::Workorder(format!("dir={directory}: {why}"));
            let files = self
                .below(Path::new(directory))
                .map_err(|error| refused(&error.to_string()))?
                .ok_or_else(|| refused("it is below no directory of --allow-dir"))?;
            if files.is_empty() {
                return Err(refused("no readable file"));
            }
            all.push((directory.clone(), files));
        }
        Ok(Arc::new(all))
    }

    /// `None` where it is below none of them.
    fn below(&self, directory: &Path) -> io::Result<Option<Vec<File>>> {
        for root in &self.0 {
            if let Some(files) = root.files(directory, MOST)? {
                return Ok(Some(files));
            }
        }
        Ok(None)
    }
}
