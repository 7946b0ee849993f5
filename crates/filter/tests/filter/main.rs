//! Filters seen from outside: verdicts, refusals, explanations, hostile input.

mod a05;
mod adversarial;
mod attributes;
mod correctness;
mod documented;
mod explained;
mod expressions;
mod generate;
mod index_hostile;
mod index_paths;
mod indexed;
mod languages;
mod naive;
mod operators;
mod property;
mod quamina;
mod refused;
mod rules;
mod second;
mod traps;
mod verdict;
