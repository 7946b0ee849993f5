//! Whether the model is right: its lag beside the recorded lag, for the recorded arrivals and the recorded replicas.

use super::calibrate::STARTED_SECONDS;
use super::recording::{Recording, Row};
use super::service::{Leaving, Rates, Service};

/// Most that the model may be wrong, on average, as a part of the peak of the lag or of the threshold, whichever is more.
pub const ERROR_MAX: f64 = 0.1;
/// Fewest pairs of samples of a role under way that prove anything.
pub const PAIRS_MIN: usize = 10;

/// Model and recording side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// Name of the recording.
    pub name: String,
    /// Highest recorded lag.
    pub recorded_max: u64,
    /// Highest lag of the model.
    pub model_max: u64,
    /// Mean distance of the two, as [`ERROR_MAX`] counts it; not a number when the recording has fewer than [`PAIRS_MIN`] pairs of
    /// samples to judge by.
    pub error: f64,
}

/// Runs the model beside a recording. `threshold` is the lag that means one more replica.
#[must_use]
pub fn prove(recording: &Recording, rates: Rates, threshold: u64) -> Proof {
    let started = |row: &&Row| row.under_way() && row.at >= STARTED_SECONDS;
    let rows: Vec<&Row> = recording.rows.iter().skip_while(|row| !started(row)).collect();
    let mut proof = Proof { name: recording.name.clone(), recorded_max: 0, model_max: 0, error: f64::NAN };
    let Some(first) = rows.first().filter(|_| rows.len() > PAIRS_MIN) else { return proof };
    let mut service = Service::new(rates, first.partitions.len() as u32, first.replicas);
    service.owe(&first.lags());
    let mut distance = 0.0;
    for pair in rows.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        match after.replicas.checked_sub(service.replicas()) {
            Some(more) => service.join(more),
            None => service.leave(service.replicas() - after.replicas, Leaving::Oldest),
        }
        let came = |n: usize| (after.partitions[n].end - before.partitions[n].end) as f64;
        let arrivals: Vec<f64> = (0..after.partitions.len()).map(came).collect();
        service.step(after.at - before.at, &arrivals);
        let (model, recorded) = (service.lags().iter().sum::<u64>(), after.lag());
        distance += model.abs_diff(recorded) as f64;
        proof.recorded_max = proof.recorded_max.max(recorded);
        proof.model_max = proof.model_max.max(model);
    }
    proof.error = distance / (rows.len() - 1) as f64 / proof.recorded_max.max(threshold) as f64;
    proof
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { per_replica: 10.0, behind: 0.0, hand_over: 0.0 };

    /// Samples of a second each, from the first that counts on; every record is committed at once.
    fn recording(samples: usize) -> Recording {
        let row = |n: usize| format!("{},1,0,,{n},{n}\n", STARTED_SECONDS as usize * 1000 + n * 1000);
        let rows: String = (0..samples).map(row).collect();
        let before = "0,1,0,ready,0,-1\n1000,1,0,,0,0\n";
        Recording::parse("x", &format!("at_ms,replicas,held,events,ends,committed\n{before}{rows}"))
            .expect("a recording")
    }

    #[test]
    fn few_samples_prove_nothing() {
        for samples in [0, 1, 2, PAIRS_MIN] {
            let proof = prove(&recording(samples), RATES, 500);
            assert!(proof.error.is_nan(), "{samples} samples: {proof:?}");
        }
        let proof = prove(&recording(PAIRS_MIN + 1), RATES, 500);
        assert!(proof.error <= ERROR_MAX, "{proof:?}");
    }
}
