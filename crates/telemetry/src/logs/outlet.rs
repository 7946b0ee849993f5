//! The way out of log lines: whoever says one puts it down and goes on, a thread writes it. When nobody reads standard error, lines
//! are lost and counted, and nothing waits for them.
//!
//! No library: `tracing-appender` bounds what waits by its number of lines, of which each may have 8 KiB, writes each by itself, and
//! tells nobody how many it dropped until it is asked.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

/// Most bytes of lines that wait while others are written, which may be as many again.
pub(super) const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Room that is kept after a flood.
const KEPT_BYTES: usize = 64 * 1024;

/// What says in a line how many were lost.
pub(super) type SayLost = Box<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// Takes lines and writes them in its own time. A clone is the same.
#[derive(Clone)]
pub(super) struct Outlet(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// There are lines to write.
    some: Condvar,
    /// Everything is written.
    idle: Condvar,
    lost: Counter,
    say_lost: SayLost,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Lines in there that say how many were lost.
    notices: Vec<Notice>,
    writing: bool,
    /// Lines that were lost since a line said so.
    unsaid: u64,
}

/// Of each failure to write and of each time without room there is one at most: two in what waits.
struct Notice {
    /// Where its line ends among those that it is written with.
    end: usize,
    lost: u64,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Outlet {
    /// Starts the thread that writes, for as long as the process lives. `to` has no buffer of its own.
    ///
    /// # Errors
    /// When there is no thread.
    pub(super) fn start(
        to: impl Write + Send + 'static,
        lost: Counter,
        say_lost: SayLost,
    ) -> std::io::Result<Self> {
        let (some, idle) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { state: Mutex::default(), some, idle, lost, say_lost });
        let outlet = Self(shared.clone());
        std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || shared.write(to))?;
        Ok(outlet)
    }

    /// Puts down a line, which ends in `\n`. Never waits for the reader: without room the line is lost.
    pub(super) fn put(&self, line: &[u8]) {
        let mut state = self.0.lock();
        let said = if state.unsaid > 0 && state.has_room_for(line.len()) {
            (self.0.say_lost)(state.unsaid)
        } else {
            Vec::new()
        };
        if !state.has_room_for(said.len() + line.len()) {
            state.unsaid += 1;
            drop(state);
            self.0.lost.inc();
            return;
        }
        state.waiting.extend_from_slice(&said);
        if !said.is_empty() {
            let (end, lost) = (state.waiting.len(), std::mem::take(&mut state.unsaid));
            state.notices.push(Notice { end, lost });
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.0.some.notify_one();
    }

    /// Waits until everything is written, but not longer than this.
    pub(super) fn flush(&self, within: Duration) {
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        drop(self.0.idle.wait_timeout_while(self.0.lock(), within, busy));
    }
}

impl State {
    fn has_room_for(&self, bytes: usize) -> bool {
        self.waiting.len() + bytes <= WAITING_BYTES_MAX
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits, all of it at once. Never returns.
    fn write(&self, mut to: impl Write) {
        let (mut lines, mut notices) = (Vec::new(), Vec::new());
        // What was written last ends within a line.
        let mut torn = false;
        loop {
            let mut state = self.lock();
            state.writing = false;
            if state.waiting.is_empty() {
                self.idle.notify_all();
            }
            let mut state = self
                .some
                .wait_while(state, |it| it.waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            state.writing = true;
            std::mem::swap(&mut state.waiting, &mut lines);
            std::mem::swap(&mut state.notices, &mut notices);
            drop(state);
            // Half a line must not run into the next one.
            torn = torn && write_all(&mut to, b"\n") == 0;
            let written = if torn { 0 } else { write_all(&mut to, &lines) };
            torn = torn || lines[..written].last().is_some_and(|last| *last != b'\n');
            // The failure itself cannot be complained about.
            self.lose(&lines[written..], notices.drain(..).filter(|it| it.end > written));
            lines.clear();
            lines.shrink_to(KEPT_BYTES);
        }
    }

    /// Counts the lines that end in `unwritten`, to be said with the next one. What notices among them say is still to be said, and they
    /// are no lines of their own.
    fn lose(&self, unwritten: &[u8], notices: impl Iterator<Item = Notice>) {
        let mut lines = unwritten.iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut unsaid = 0;
        for notice in notices {
            lines -= 1;
            unsaid += notice.lost;
        }
        self.lost.inc_by(lines);
        self.lock().unsaid += lines + unsaid;
    }
}

/// How many bytes were written: all of them, unless it failed.
fn write_all(to: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Longest that a test waits for what must come.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Lets a write through.
    const ALL: usize = usize::MAX;
    /// Fails it.
    const NONE: usize = 0;

    /// A reader that takes of each write as many bytes as the test says; none is a failure.
    struct Gate {
        came: mpsc::Sender<Vec<u8>>,
        go: mpsc::Receiver<usize>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.came.send(bytes.to_vec());
            match self.go.recv() {
                Ok(most) if most > NONE => Ok(most.min(bytes.len())),
                _ => Err(std::io::Error::other("closed")),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    struct Rig {
        outlet: Outlet,
        came: mpsc::Receiver<Vec<u8>>,
        go: mpsc::Sender<usize>,
        lost: Counter,
    }

    impl Rig {
        fn start() -> Self {
            let ((came, coming), (go, going)) = (mpsc::channel(), mpsc::channel());
            let lost = Counter::default();
            let say: SayLost = Box::new(|lost| format!("lost {lost}\n").into_bytes());
            let outlet = Outlet::start(Gate { came, go: going }, lost.clone(), say).expect("a thread");
            Self { outlet, came: coming, go, lost }
        }

        fn written(&self) -> String {
            String::from_utf8(self.came.recv_timeout(PATIENCE).expect("it is written")).expect("text")
        }

        fn go(&self, most: usize) {
            self.go.send(most).expect("it runs");
        }
    }

    #[test]
    fn lines_that_nobody_reads_are_lost_and_counted_and_said_when_there_is_room_again() {
        let rig = Rig::start();
        rig.outlet.put(b"first\n");
        assert_eq!(rig.written(), "first\n");
        let long = [vec![b'x'; 8 * 1024 - 1], b"\n".to_vec()].concat();
        let fit = WAITING_BYTES_MAX / long.len();
        for _ in 0..fit + 7 {
            rig.outlet.put(&long);
        }
        assert_eq!(rig.lost.get(), 7, "what fits waits, and nobody waited for the reader");
        // Not even at the end.
        rig.outlet.flush(Duration::from_millis(10));
        rig.go(ALL);
        assert_eq!(rig.written().len(), fit * long.len(), "all at once");
        rig.outlet.put(b"next\n");
        rig.go(ALL);
        assert_eq!(rig.written(), "lost 7\nnext\n");
        rig.outlet.put(b"last\n");
        rig.go(ALL);
        assert_eq!(rig.written(), "last\n", "said once");
        rig.go(ALL);
        rig.outlet.flush(PATIENCE);
        let state = rig.outlet.0.lock();
        assert!(!state.writing && state.waiting.is_empty(), "flushed");
        assert_eq!(rig.lost.get(), 7);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_said_and_the_next_is_tried() {
        let rig = Rig::start();
        rig.outlet.put(b"a\n");
        rig.written();
        rig.outlet.put(b"b\n");
        rig.outlet.put(b"c\n");
        rig.go(NONE);
        assert_eq!(rig.written(), "b\nc\n");
        rig.go(NONE);
        rig.outlet.flush(PATIENCE);
        assert_eq!(rig.lost.get(), 3);
        rig.outlet.put(b"d\n");
        assert_eq!(rig.written(), "lost 3\nd\n");
        rig.go(NONE);
        rig.outlet.flush(PATIENCE);
        rig.outlet.put(b"e\n");
        assert_eq!(rig.written(), "lost 4\ne\n", "what was to be said is not lost, and no line of its own");
        rig.go(ALL);
        rig.outlet.flush(PATIENCE);
        assert_eq!((rig.lost.get(), rig.outlet.0.lock().unsaid), (4, 0));
    }

    #[test]
    fn half_a_line_is_lost_and_does_not_run_into_the_next() {
        let rig = Rig::start();
        rig.outlet.put(b"first\n");
        rig.written();
        rig.outlet.put(b"second\n");
        rig.outlet.put(b"third\n");
        rig.go(ALL);
        assert_eq!(rig.written(), "second\nthird\n");
        rig.go("second\nth".len());
        assert_eq!(rig.written(), "ird\n");
        rig.go(NONE);
        rig.outlet.flush(PATIENCE);
        assert_eq!(rig.lost.get(), 1, "the second one is there");
        rig.outlet.put(b"fourth\n");
        for most in [NONE, ALL] {
            assert_eq!(rig.written(), "\n", "before anything else, until it is there");
            rig.go(most);
            if most == NONE {
                rig.outlet.flush(PATIENCE);
                rig.outlet.put(b"fifth\n");
            }
        }
        assert_eq!(rig.written(), "lost 2\nfifth\n");
        rig.go(ALL);
        rig.outlet.flush(PATIENCE);
        assert_eq!(rig.lost.get(), 2);
    }
}
