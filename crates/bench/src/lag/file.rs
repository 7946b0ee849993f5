//! A recording as text: a header that says how it was made, and a line for each sample.

use std::fmt::Write as _;

use super::Args;
use super::plan::{Plan, Role};
use super::recording::Row;

/// The file. Lines of the header begin with `#`.
pub(super) fn text(args: &Args, plan: &Plan, rows: &[Row]) -> String {
    let mut text = header(args, plan);
    text += "at_ms,replicas,held,events,ends,committed\n";
    for row in rows {
        let join = |of: &dyn Fn(usize) -> i64| -> String {
            (0..row.partitions.len()).map(|n| of(n).to_string()).collect::<Vec<_>>().join(" ")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{}",
            row.at.as_millis(),
            row.replicas,
            row.held,
            row.events.join(" "),
            join(&|n| row.partitions[n].end),
            join(&|n| row.partitions[n].committed)
        );
    }
    text
}

fn header(args: &Args, plan: &Plan) -> String {
    let role = plan.role.name();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let limits = match plan.role {
        Role::Deliver => format!(
            "Each process has at most {} requests open and the receiver answers after {} ms; 8 endpoints of 64 strict mailboxes.",
            args.in_flight, args.answer_ms
        ),
        Role::Match => {
            "Each event matches one of 8 subscriptions; what a process does is what the machine gives it."
                .to_owned()
        }
    };
    let load: Vec<String> =
        plan.load.iter().map(|load| format!("{} s at {}/s", load.seconds, load.rate)).collect();
    format!(
        "# recording: {}\n# about: {}\n# role: {role}\n# partitions: {}\n# load: {}, each fifth of a second more or less by \
         up to a half\n# how: `make record-lag`: real {role} processes on a real Kafka, sampled every second without joining \
         the group. {limits}\n# machine: {cores} cores shared with other work, {build} build; rates are of this machine and of \
         these limits, not of mailrail\n# columns: committed -1 is a partition that the group \
         never committed; held is what waits in the journal\n",
        plan.name,
        plan.about,
        args.partitions,
        load.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::super::offsets::PartitionOffsets;
    use super::super::plan::PLANS;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_recording_says_how_it_was_made_and_has_a_line_for_each_sample() {
        let services = ["--kafka", "k", "--postgres", "p", "--redis", "r"];
        let line = Line::parse_from(std::iter::once("lag").chain(services));
        let partitions =
            vec![PartitionOffsets { end: 7, committed: -1 }, PartitionOffsets { end: 9, committed: 4 }];
        let events = vec!["outage".to_owned(), "stopped".to_owned()];
        let rows = [Row { at: Duration::from_millis(1004), replicas: 2, held: 3, partitions, events }];
        let text = text(&line.args, &PLANS[0], &rows);
        assert!(text.starts_with("# recording: deliver-one\n"), "{text}");
        assert!(text.ends_with("committed\n1004,2,3,outage stopped,7 9,-1 4\n"), "{text}");
    }
}
