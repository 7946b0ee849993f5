//! Arithmetic of reports: medians, percentiles, ratios.

/// The value that this share of all is not above; of sorted ones. 0 of none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index"
)]
pub(crate) fn percentile(sorted: &[u32], share: f64) -> u32 {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(0)
}

/// The middle one, or between the two in the middle. 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The median over the rounds of the ratio within a round: what slowed all of a round down cancels out.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(of.iter().zip(to).map(|(a, b)| a / b).collect())
}

/// To three places.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latencies: Vec<u32> = (1..=200).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&latencies, share)), [100, 198, 200]);
        assert_eq!(percentile(&[7], 0.5), 7);
        assert_eq!(percentile(&[], 0.99), 0);
    }

    /// The second round was slow for both.
    #[test]
    #[expect(clippy::float_cmp, reason = "halves are exact")]
    fn what_slows_a_whole_round_down_cancels_out() {
        assert_eq!(ratio(&[50.0, 5.0, 60.0], &[100.0, 10.0, 100.0]), 0.5);
        assert_eq!(median(vec![3.0, 1.0]), 2.0);
    }
}
