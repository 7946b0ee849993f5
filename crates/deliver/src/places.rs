//! How much of a process one endpoint may have, so that those that answer slowly leave room for everybody else.
//!
//! Dynamic thresholds, as switches share their memory between ports (Choudhury and Hahne, 1998): an endpoint may have a multiple of
//! what is free. Alone it has most of the process; the more others take, the less each of them may have, and some of it stays free for
//! whoever comes next. For that nobody has to be told apart as slow, and nothing is kept for endpoints that do not come.
//!
//! It is asked when the next delivery is chosen, before anything is done for it. Where it says no, others go, and the partition is told
//! when to ask again.
//!
//! Who is slow all the same is known here, and to no partition: the attempts of an endpoint are spread over them. It matters where a
//! partition has no room for what waits.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mailrail_mailbox::PARK_AFTER;
use mailrail_types::MailboxKey;
use tokio::sync::Notify;
use tokio::time::Instant;

/// An endpoint may have so many times what is free: alone two thirds of all, two of them two fifths each, and ten leave a twentieth.
const TIMES_FREE: u32 = 2;
/// Partitions that are told of one end. What an endpoint takes closes the room by three: by its place, and by what is free no more.
const CALLED_MAX: u32 = 2;

/// The places of a process for attempts that are not made alone.
pub(crate) struct Places(Mutex<State>);

struct State {
    all: u32,
    taken: u32,
    /// Those that have a place, or are waited for.
    recipients: HashMap<Box<str>, Recipient>,
}

struct Recipient {
    /// When each of its places was taken, ascending.
    taken: VecDeque<Instant>,
    /// Partitions that have something ready for it, in the order in which they were refused. One that is gone is passed over.
    waiting: VecDeque<Weak<Bell>>,
}

/// Where a partition hears that an endpoint may have one more.
#[derive(Default)]
pub(crate) struct Bell {
    recipients: Mutex<BTreeSet<Box<str>>>,
    rung: Notify,
}

/// A place that an attempt has. Dropped, it is free again: on every path.
pub(crate) struct Place {
    places: Arc<Places>,
    mailbox: MailboxKey,
    since: Instant,
}

impl Places {
    /// `all`: how many attempts the process makes at a time.
    pub(crate) fn new(all: usize) -> Arc<Self> {
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        Arc::new(Self(Mutex::new(State { all, taken: 0, recipients: HashMap::new() })))
    }

    /// A place for an attempt of the mailbox; `None` when its endpoint has what it may have. Then `bell` rings when it may have more.
    pub(crate) fn take(self: &Arc<Self>, mailbox: &MailboxKey, bell: &Arc<Bell>) -> Option<Place> {
        let mut state = self.lock();
        let (share, now) = (state.share(), Instant::now());
        let recipient = mailbox.recipient();
        match state.recipients.get_mut(recipient) {
            Some(known) if known.count() >= share => {
                known.wait(bell);
                return None;
            }
            Some(known) => {
                known.taken.push_back(now);
                // It asks again when it is refused.
                known.waiting.retain(|it| !std::ptr::eq(it.as_ptr(), Arc::as_ptr(bell)));
            }
            None => {
                let first = Recipient { taken: VecDeque::from([now]), waiting: VecDeque::new() };
                state.recipients.insert(recipient.into(), first);
            }
        }
        state.taken += 1;
        Some(Place { places: self.clone(), mailbox: mailbox.clone(), since: now })
    }

    /// Whether half of what the endpoint has open, or more, has been open for long. One that takes long among many that do not is no sign:
    /// what waits goes on.
    pub(crate) fn is_slow(&self, recipient: &str, now: Instant) -> bool {
        let state = self.lock();
        let half =
            |known: &Recipient| known.taken.get(known.taken.len().div_ceil(2).saturating_sub(1)).copied();
        let since = state.recipients.get(recipient).and_then(half);
        since.is_some_and(|since| now.saturating_duration_since(since) >= PARK_AFTER)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many an endpoint may have now. One at any time: who has none need not wait for others to end.
    fn share(&self) -> u32 {
        self.all.saturating_sub(self.taken).saturating_mul(TIMES_FREE).max(1)
    }

    fn give_back(&mut self, recipient: &str, since: Instant) {
        self.taken = self.taken.saturating_sub(1);
        let share = self.share();
        let Some(known) = self.recipients.get_mut(recipient) else { return };
        // Any of those that were taken at that instant: they are the same.
        let at = known.taken.partition_point(|taken| *taken < since);
        known.taken.remove(at);
        if known.taken.is_empty() {
            // Nobody is left whose end would call the others.
            known.call(u32::MAX, recipient);
            self.recipients.remove(recipient);
        } else {
            let room = share.saturating_sub(known.count());
            known.call(room.div_ceil(TIMES_FREE + 1).min(CALLED_MAX), recipient);
        }
    }
}

impl Recipient {
    fn count(&self) -> u32 {
        u32::try_from(self.taken.len()).unwrap_or(u32::MAX)
    }

    fn wait(&mut self, bell: &Arc<Bell>) {
        let is_listed = self.waiting.iter().any(|it| std::ptr::eq(it.as_ptr(), Arc::as_ptr(bell)));
        if !is_listed {
            // Of an endpoint that hardly answers nobody takes those out whose partition has gone.
            self.waiting.retain(|it| it.strong_count() > 0);
            self.waiting.push_back(Arc::downgrade(bell));
        }
    }

    fn call(&mut self, mut count: u32, recipient: &str) {
        while count > 0
            && let Some(first) = self.waiting.pop_front()
        {
            if let Some(bell) = first.upgrade() {
                bell.ring(recipient);
                count -= 1;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().give_back(self.mailbox.recipient(), self.since);
    }
}

impl Bell {
    fn ring(&self, recipient: &str) {
        self.recipients.lock().unwrap_or_else(PoisonError::into_inner).insert(recipient.into());
        self.rung.notify_one();
    }

    /// Waits until it rings, and gives the endpoints that may have one more. Cancel safe.
    pub(crate) async fn heard(&self) -> BTreeSet<Box<str>> {
        self.rung.notified().await;
        std::mem::take(&mut *self.recipients.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(endpoint: usize) -> MailboxKey {
        MailboxKey::from_text(&format!("default::acme:{endpoint}::0"))
    }

    /// Takes for each in turn while it gets one.
    fn fill(places: &Arc<Places>, endpoints: usize) -> Vec<Vec<Place>> {
        let bell = Arc::new(Bell::default());
        let mut had: Vec<Vec<Place>> = (0..endpoints).map(|_| Vec::new()).collect();
        loop {
            let before: usize = had.iter().map(Vec::len).sum();
            for (endpoint, has) in had.iter_mut().enumerate() {
                has.extend(places.take(&of(endpoint), &bell));
            }
            if had.iter().map(Vec::len).sum::<usize>() == before {
                return had;
            }
        }
    }

    #[test]
    fn a24_endpoints_that_do_not_answer_leave_room() {
        for (endpoints, each, free) in [(1, 342, 170), (2, 205, 102), (10, 49, 22), (100, 5, 2)] {
            let places = Places::new(512);
            let had = fill(&places, endpoints);
            assert!(had.iter().all(|it| it.len().abs_diff(each) <= 1), "{endpoints}: {}", had[0].len());
            let left = 512 - places.lock().taken;
            assert!(left.abs_diff(free) <= 2, "{endpoints}: {left} are free");
            drop(had);
            let state = places.lock();
            assert_eq!((state.taken, state.recipients.len()), (0, 0), "nothing is kept");
        }
    }

    #[test]
    fn who_has_none_gets_one_although_nothing_is_free() {
        let (places, bell) = (Places::new(1), Arc::new(Bell::default()));
        let one = places.take(&of(0), &bell).expect("free");
        assert!(places.take(&of(0), &bell).is_none());
        assert!(places.take(&of(1), &bell).is_some(), "its permit is waited for elsewhere");
        drop(one);
    }

    /// I8: slow is an endpoint whose attempts mostly take long, also where one of many ends every second.
    #[tokio::test(start_paused = true)]
    async fn i8_an_endpoint_is_slow_when_half_of_its_attempts_take_long() {
        let (places, bell) = (Places::new(64), Arc::new(Bell::default()));
        let is_slow = |endpoint: usize| places.is_slow(of(endpoint).recipient(), Instant::now());
        let take = |endpoint: usize| places.take(&of(endpoint), &bell).expect("there is room");
        assert!(!is_slow(0), "it has none");
        let hangs = take(0);
        tokio::time::advance(PARK_AFTER - Duration::from_millis(1)).await;
        assert!(!is_slow(0), "not for long");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(is_slow(0));
        let quick = [take(0), take(0)];
        assert!(!is_slow(0), "one slow among quick ones");
        drop(hangs);
        tokio::time::advance(PARK_AFTER / 2).await;
        assert!(!is_slow(0) && quick.len() == 2);
        // Each takes 10 s, and one begins and ends every second.
        let mut open = VecDeque::new();
        for second in 0..30 {
            open.push_back(take(1));
            if open.len() > 10 {
                drop(open.pop_front());
            }
            assert_eq!(is_slow(1), second >= 3, "at {second}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        drop((open, quick));
        assert_eq!(places.lock().recipients.len(), 0, "nothing is kept");
    }

    /// Partitions come and go while an endpoint answers nothing.
    #[test]
    fn who_has_gone_is_not_kept_while_others_come() {
        let (places, bell) = (Places::new(1), Arc::new(Bell::default()));
        let _one = places.take(&of(0), &bell).expect("free");
        for _ in 0..100 {
            assert!(places.take(&of(0), &Arc::new(Bell::default())).is_none());
        }
        assert_eq!(places.lock().recipients["default::acme:0"].waiting.len(), 1);
    }

    /// A partition is told when an attempt of the endpoint ends, in its turn, and once.
    #[tokio::test]
    async fn a24_who_was_refused_is_called_when_there_is_room() {
        let places = Places::new(3);
        let bells = [Arc::new(Bell::default()), Arc::new(Bell::default()), Arc::new(Bell::default())];
        let had: Vec<Place> = std::iter::from_fn(|| places.take(&of(0), &bells[0])).collect();
        assert_eq!(had.len(), 2);
        for bell in [&bells[1], &bells[2], &bells[2]] {
            assert!(places.take(&of(0), bell).is_none());
        }
        assert_eq!(places.lock().recipients["default::acme:0"].waiting.len(), 3, "each waits once");
        let [first, gone, last] = bells;
        drop(gone);
        let rung = |bell: Arc<Bell>| async move {
            let heard = tokio::time::timeout(Duration::from_secs(60), bell.heard()).await;
            heard.expect("it rings").into_iter().map(String::from).collect::<Vec<_>>()
        };
        let mut had = had.into_iter();
        drop(had.next());
        assert_eq!(rung(first).await, ["default::acme:0"]);
        drop(had.next());
        assert_eq!(rung(last).await, ["default::acme:0"], "the one between is gone");
        assert_eq!(places.lock().recipients.len(), 0, "nobody waits");
    }
}
