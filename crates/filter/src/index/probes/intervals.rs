//! Intervals that a value lies in: sorted by their lower ends, with the largest upper end of each subtree of the implicit
//! balanced tree over them. A look-up costs a logarithm, and another one for every answer.

use std::cmp::Ordering;

/// An end of an interval.
pub(crate) trait Edge {
    /// Order of lower ends: what allows more comes first.
    fn as_lower(&self, other: &Self) -> Ordering;
    /// Order of upper ends: what allows more comes last.
    fn as_upper(&self, other: &Self) -> Ordering;
}

/// An interval, open where an end is missing.
#[derive(Debug)]
pub(crate) struct Interval<E> {
    pub(crate) lower: Option<E>,
    pub(crate) upper: Option<E>,
    pub(crate) conjunction: u32,
}

/// Intervals of one path.
#[derive(Debug)]
pub(crate) struct Intervals<E> {
    /// Sorted by lower end.
    sorted: Vec<Interval<E>>,
    /// By the middle of a subtree: which of its intervals has the largest upper end.
    widest: Vec<u32>,
}

impl<E> Default for Intervals<E> {
    fn default() -> Self {
        Self { sorted: Vec::new(), widest: Vec::new() }
    }
}

impl<E: Edge> Intervals<E> {
    pub(crate) fn new(mut intervals: Vec<Interval<E>>) -> Self {
        intervals.sort_by(|a, b| match (&a.lower, &b.lower) {
            (Some(a), Some(b)) => a.as_lower(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        let mut built = Self { widest: vec![0; intervals.len()], sorted: intervals };
        built.measure(0, built.sorted.len());
        built
    }

    /// Fills in `widest` for a subtree. As deep as the logarithm of its size.
    fn measure(&mut self, from: usize, to: usize) -> Option<u32> {
        if from == to {
            return None;
        }
        let middle = from.midpoint(to);
        let mut widest = middle as u32;
        for below in [self.measure(from, middle), self.measure(middle + 1, to)].into_iter().flatten() {
            if self.is_wider(below, widest) {
                widest = below;
            }
        }
        self.widest[middle] = widest;
        Some(widest)
    }

    fn is_wider(&self, left: u32, right: u32) -> bool {
        match (&self.sorted[left as usize].upper, &self.sorted[right as usize].upper) {
            (Some(left), Some(right)) => left.as_upper(right) == Ordering::Greater,
            (left, right) => left.is_none() && right.is_some(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Gives the conjunction of every interval whose ends allow the value.
    pub(crate) fn find(
        &self,
        above: impl Fn(&E) -> bool,
        below: impl Fn(&E) -> bool,
        mut found: impl FnMut(u32),
    ) {
        let reached = self.sorted.partition_point(|i| i.lower.as_ref().is_none_or(&above));
        self.descend(0, self.sorted.len(), reached, &below, &mut found);
    }

    /// As deep as the logarithm of the number of intervals.
    fn descend(
        &self,
        from: usize,
        to: usize,
        reached: usize,
        below: &impl Fn(&E) -> bool,
        found: &mut impl FnMut(u32),
    ) {
        if from >= to.min(reached) {
            return;
        }
        let middle = from.midpoint(to);
        let allows = |at: usize| self.sorted[at].upper.as_ref().is_none_or(below);
        if !allows(self.widest[middle] as usize) {
            return;
        }
        self.descend(from, middle, reached, below, found);
        if middle < reached {
            if allows(middle) {
                found(self.sorted[middle].conjunction);
            }
            self.descend(middle + 1, to, reached, below, found);
        }
    }

    /// Bytes on the heap, without what the ends hold.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.sorted.capacity() * size_of::<Interval<E>>() + self.widest.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Edge for i32 {
        fn as_lower(&self, other: &Self) -> Ordering {
            self.cmp(other)
        }

        fn as_upper(&self, other: &Self) -> Ordering {
            self.cmp(other)
        }
    }

    proptest! {
        #[test]
        fn finds_every_interval_around_a_value(ends in prop::collection::vec((prop::option::of(-20..20), prop::option::of(-20..20)), 0..60), value in -22..22) {
            let contains = |(lower, upper): &(Option<i32>, Option<i32>)| {
                lower.is_none_or(|l| l <= value) && upper.is_none_or(|u| value <= u)
            };
            let expected: Vec<u32> = (0..ends.len() as u32).filter(|n| contains(&ends[*n as usize])).collect();
            let intervals = Intervals::new(
                ends.iter().zip(0..).map(|(&(lower, upper), conjunction)| Interval { lower, upper, conjunction }).collect(),
            );
            let mut found = Vec::new();
            intervals.find(|lower| *lower <= value, |upper| value <= *upper, |conjunction| found.push(conjunction));
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
