//! Retry schedule and outcome arithmetic, fed with now.
