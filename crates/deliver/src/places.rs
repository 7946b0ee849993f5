//! How much of a process one endpoint may have, so that those that answer slowly leave room for everybody else.
//!
//! Dynamic thresholds, as switches share their memory between ports (Choudhury and Hahne, 1998): an endpoint may have a multiple of
//! what is free. Alone it has most of the process; the more others take, the less each of them may have, and some of it stays free for
//! whoever comes next. Nobody has to be told apart as slow, and nothing is kept for endpoints that do not come.

/// An endpoint may have so many times what is free: alone two thirds of all, two of them two fifths each, and ten leave a twentieth.
const TIMES_FREE: u32 = 2;

/// Attempts of a process that are with endpoints now.
#[derive(Debug)]
pub(crate) struct Places {
    all: u32,
    taken: u32,
}

impl Places {
    /// `all`: how many attempts the process makes at a time, at least 1.
    pub(crate) fn new(all: usize) -> Self {
        Self { all: u32::try_from(all).unwrap_or(u32::MAX), taken: 0 }
    }

    /// How many an endpoint may have now. One at any time: who has none need not wait for others to end.
    pub(crate) fn share(&self) -> u32 {
        self.all.saturating_sub(self.taken).saturating_mul(TIMES_FREE).max(1)
    }

    pub(crate) fn take(&mut self) {
        self.taken += 1;
    }

    pub(crate) fn give_back(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes for each in turn while its share allows; gives what each has then.
    fn fill(places: &mut Places, endpoints: usize) -> Vec<u32> {
        let mut had = vec![0; endpoints];
        loop {
            let mut took = false;
            for has in &mut had {
                if *has < places.share() {
                    places.take();
                    *has += 1;
                    took = true;
                }
            }
            if !took {
                return had;
            }
        }
    }

    #[test]
    fn a24_endpoints_that_do_not_answer_leave_room() {
        for (endpoints, each, free) in [(1, 342, 170), (2, 205, 102), (10, 49, 22), (100, 5, 2)] {
            let mut places = Places::new(512);
            let had = fill(&mut places, endpoints);
            assert!(had.iter().all(|it| it.abs_diff(each) <= 1), "{endpoints}: {had:?}");
            let left = places.all - places.taken;
            assert!(left.abs_diff(free) <= 2, "{endpoints}: {left} are free");
        }
    }

    #[test]
    fn one_is_always_allowed_and_what_comes_back_is_shared_again() {
        let mut places = Places::new(1);
        assert_eq!(places.share(), 2);
        places.take();
        assert_eq!(places.share(), 1);
        places.give_back();
        places.give_back();
        assert_eq!(places.share(), 2);
    }
}
