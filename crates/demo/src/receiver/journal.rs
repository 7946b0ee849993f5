//! The receiver's own journal: one line of JSON per receipt, written before the answer goes out.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use super::receipt::Receipt;
use crate::Error;

/// An open journal.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates the file and gives back the receipts it holds. A last line that was cut off by a kill was never
    /// answered: it is removed.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Receipt>), Error> {
        let fail = |problem: String| Error::Journal { path: path.to_owned(), problem };
        let io = |error: std::io::Error| fail(error.to_string());
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        let mut reader = BufReader::new(&file);
        let mut receipts = Vec::new();
        let mut whole_bytes = 0;
        let mut line = String::new();
        loop {
            line.clear();
            let read = reader.read_line(&mut line).map_err(io)?;
            if read == 0 || !line.ends_with('\n') {
                break;
            }
            let receipt = serde_json::from_str(&line)
                .map_err(|error| fail(format!("line {} is not a receipt: {error}", receipts.len() + 1)))?;
            receipts.push(receipt);
            whole_bytes += read as u64;
        }
        file.set_len(whole_bytes).map_err(io)?;
        Ok((Self { path: path.to_owned(), file }, receipts))
    }

    /// Appends a receipt: one write, so that a kill leaves whole lines and at most one part of a line.
    pub(crate) fn append(&mut self, receipt: &Receipt) -> Result<(), Error> {
        let fail = |problem: String| Error::Journal { path: self.path.clone(), problem };
        let mut line = serde_json::to_vec(receipt).map_err(|error| fail(error.to_string()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| fail(error.to_string()))
    }
}
