//! Simulations in virtual time: what a rule does over days, in seconds.
//!
//! [`journal`] drives the delivery protocol through crashes, zombies and lost writes, and shows that each of its rules is
//! needed. [`mailboxes`] drives the sizing of mailboxes with senders of many rates and counts how often a width changes.
//! [`autoscale`] drives KEDA's and Kubernetes' rules, with the chart's figures, with recorded lag.
//!
//! **Always holds**: a run is decided by its arguments and its seed, and by nothing else; the seed is printed. What is
//! simulated is the code that runs, not a copy of it; the rules of KEDA and Kubernetes, which are not ours, are copied and say from where.
//!
//! **Deliberately absent**: I/O inside a simulation, wall-clock time, a model of the network.

pub mod autoscale;
pub mod journal;
pub mod mailboxes;
