//! Filters seen from outside: verdicts, refusals, explanations, hostile input.

mod a05;
mod adversarial;
mod attributes;
mod correctness;
mod explained;
mod naive;
mod property;
mod refused;
mod traps;
mod verdict;
