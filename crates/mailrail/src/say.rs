//! What is said to a person: results on standard output, and on standard error what stands beside log lines.
//!
//! Every command speaks through here. The macros of the standard library panic when nobody reads any more or a disk is full; lints keep
//! them out of this crate.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Longest that who says something waits until it is read.
const READER_WAIT_MAX: Duration = Duration::from_secs(1);

/// Writes a command's result to standard output as it is: it brings its own ends of lines. A reader that has seen enough and is gone
/// (`mailrail … | head -1`) is no failure, and gets no more.
///
/// # Errors
/// When it cannot be written, as on a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    write_whole(&mut io::stdout().lock(), text)
}

fn write_whole(out: &mut impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context(
            "the result cannot be written to standard output; what was asked for was done all the same \
             (output_unwritable)",
        ),
    }
}

/// Writes the text and an end of line to standard error, at once and not in pieces. When nobody reads that, the process goes on after a
/// second: a pipe that is full must hold up neither work nor its end.
pub(crate) fn say(text: &str) {
    let line = format!("{text}\n");
    // Nothing is sent: the thread's end is what is waited for.
    let (writes, written) = mpsc::channel::<()>();
    let writing = std::thread::Builder::new().name("say".to_owned()).spawn(move || {
        // What cannot be written cannot be complained about either.
        let _ = io::stderr().lock().write_all(line.as_bytes());
        drop(writes);
    });
    if writing.is_ok() {
        let _ = written.recv_timeout(READER_WAIT_MAX);
    } else {
        // Better late than not at all.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes, and fails then.
    struct Narrow {
        room: usize,
        fails: ErrorKind,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(self.fails.into());
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure_and_a_full_disk_is_one() {
        let ended = |fails| write_whole(&mut Narrow { room: 3, fails }, "a result\n");
        assert!(ended(ErrorKind::BrokenPipe).is_ok());
        let error = format!("{:#}", ended(ErrorKind::StorageFull).expect_err("it was cut"));
        assert!(error.contains("(output_unwritable)") && error.contains("storage"), "{error}");
        let mut whole = Vec::new();
        write_whole(&mut whole, "a result\n").expect("room");
        assert_eq!(whole, b"a result\n");
    }
}
