//! How often one place in the code may say its line. What goes beyond that is counted, and said in one line afterwards.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the lines of a key are counted over. It begins with the first of them.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Keys that are told apart. A key is a call site, and a process has a few hundred that ever speak; those beyond share
/// one allowance.
pub(super) const KEYS_MAX: usize = 1024;

/// What is done with a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<T> {
    /// It is said; before it, what was suppressed of its key, if anything was.
    Say(Option<Suppressed<T>>),
    /// It is not said. `first`: the first that was suppressed since nothing was.
    Suppress { first: bool },
}

/// Lines of a key that were not said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suppressed<T> {
    /// What stands for the lines.
    pub(super) sample: T,
    pub(super) lines: u64,
}

#[derive(Debug)]
struct Window<T> {
    began: Instant,
    said: u32,
    suppressed: u64,
    sample: T,
}

impl<T: Clone> Window<T> {
    fn new(began: Instant, sample: T) -> Self {
        Self { began, said: 1, suppressed: 0, sample }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= WINDOW
    }

    fn take(&mut self) -> Option<Suppressed<T>> {
        let lines = std::mem::take(&mut self.suppressed);
        (lines > 0).then(|| Suppressed { sample: self.sample.clone(), lines })
    }
}

/// The windows of all keys. `None` is the key of those that found no place.
#[derive(Debug)]
pub(super) struct Throttle<K, T> {
    /// Lines of one key in one [`WINDOW`]; 0: as many as come.
    lines_max: u32,
    windows: Mutex<HashMap<Option<K>, Window<T>>>,
}

impl<K: Eq + Hash, T: Clone> Throttle<K, T> {
    pub(super) fn new(lines_max: u32) -> Self {
        Self { lines_max, windows: Mutex::new(HashMap::new()) }
    }

    /// Decides on one line of `key`. `sample` stands for the lines of its window, if this is the first.
    pub(super) fn admit(&self, key: K, sample: T, now: Instant) -> Verdict<T> {
        if self.lines_max == 0 {
            return Verdict::Say(None);
        }
        let mut windows = self.lock();
        let key = Some(key);
        let key = if has_place(&mut windows, &key, now) { key } else { None };
        let Some(window) = windows.get_mut(&key) else {
            windows.insert(key, Window::new(now, sample));
            return Verdict::Say(None);
        };
        if window.is_over(now) {
            let suppressed = window.take();
            *window = Window::new(now, sample);
            return Verdict::Say(suppressed);
        }
        if window.said < self.lines_max {
            window.said += 1;
            return Verdict::Say(None);
        }
        window.suppressed += 1;
        Verdict::Suppress { first: window.suppressed == 1 }
    }

    /// Changes what stands for the lines of a key that are suppressed now.
    pub(super) fn note(&self, key: K, change: impl FnOnce(&mut T)) {
        let mut windows = self.lock();
        let key = Some(key);
        let key = if windows.contains_key(&key) { key } else { None };
        if let Some(window) = windows.get_mut(&key) {
            change(&mut window.sample);
        }
    }

    /// What was suppressed in windows that are over; they are forgotten.
    pub(super) fn ended(&self, now: Instant) -> Vec<Suppressed<T>> {
        let mut ended = Vec::new();
        self.lock().retain(|_, window| {
            let over = window.is_over(now);
            if over {
                ended.extend(window.take());
            }
            !over
        });
        ended
    }

    /// What was suppressed and not said yet, for the end of the process.
    pub(super) fn all(&self) -> Vec<Suppressed<T>> {
        self.lock().values_mut().filter_map(Window::take).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<K>, Window<T>>> {
        // Nothing panics while it is locked; a line is worth more than the doubt.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many keys there are windows of.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

/// Whether a key has a window of its own, or may get one. Windows that are over and owe nothing make room.
fn has_place<K: Eq + Hash, T: Clone>(
    windows: &mut HashMap<Option<K>, Window<T>>,
    key: &Option<K>,
    now: Instant,
) -> bool {
    if windows.len() < KEYS_MAX || windows.contains_key(key) {
        return true;
    }
    windows.retain(|_, window| window.suppressed > 0 || !window.is_over(now));
    windows.len() < KEYS_MAX
}
