//! Filters seen from outside: verdicts, refusals, explanations, hostile input.

mod a05;
mod adversarial;
mod attributes;
mod correctness;
mod explained;
mod generate;
mod index_hostile;
mod index_paths;
mod indexed;
mod naive;
mod property;
mod quamina;
mod refused;
mod traps;
mod verdict;
