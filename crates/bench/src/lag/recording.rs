//! One recording: an installation of its own, a load, samples every second.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use mailrail_log::{KafkaLog, Log};
use rand::{RngExt, SeedableRng};
use rand_xorshift::XorShiftRng;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Args;
use super::fleet::{Fleet, Notes, held};
use super::offsets::{Offsets, PartitionOffsets};
use super::plan::{Act, Plan, Role};
use super::receiver::{self, FRAIL_PATH};
use crate::events::Bodies;
use crate::mail::{Mail, TENANT, To, append, setup_file};
use crate::recipe::{PIPELINE, Recipe};

/// Endpoints; every other one is frail.
const ENDPOINTS: u32 = 8;
/// Mailboxes of an endpoint.
const WIDTH: u32 = 64;
const CLASS: &str = "{id: fixed, tolerates_reordering: false, fixed_buckets: 64}";
/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Between two parts of the load.
const LOAD_EVERY: Duration = Duration::from_millis(200);
/// How long the log may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// A sample.
pub(super) struct Row {
    pub(super) at: Duration,
    /// Replicas that are ready and were not told to stop.
    pub(super) replicas: usize,
    /// Deliveries in the journal.
    pub(super) held: u64,
    pub(super) partitions: Vec<PartitionOffsets>,
    /// What happened since the sample before.
    pub(super) events: Vec<String>,
}

/// An installation.
pub(super) struct Recording<'a> {
    args: &'a Args,
    recipe: Recipe,
    log: Arc<KafkaLog>,
    mail: Mail,
    offsets: Offsets,
    outage: Arc<AtomicBool>,
    folder: tempfile::TempDir,
    fleet: Fleet,
    role: Role,
}

/// What the three tasks of a run tell each other. They share one thread.
#[derive(Default)]
struct Now {
    admins: RefCell<Vec<SocketAddr>>,
    events: RefCell<Vec<String>>,
}

impl Notes for Now {
    fn replicas(&self, admins: &[SocketAddr]) {
        *self.admins.borrow_mut() = admins.to_vec();
    }

    fn event(&self, what: &str) {
        self.events.borrow_mut().push(what.to_owned());
    }
}

impl<'a> Recording<'a> {
    pub(super) async fn start(args: &'a Args, plan: &Plan) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let recipe = Recipe::new(&args.services, args.partitions.get(), args.workers.get())?;
        let outage = Arc::new(AtomicBool::new(false));
        let address = receiver::start(Duration::from_millis(args.answer_ms), outage.clone())?;
        let path = |n: u32| if n.is_multiple_of(2) { "/" } else { FRAIL_PATH };
        let endpoints: Vec<(u32, String)> =
            (0..ENDPOINTS).map(|n| (n, format!("http://{address}{}e{n:04}", path(n)))).collect();
        let open =
            [("MAILRAIL__EGRESS__ALLOW_HTTP", "true"), ("MAILRAIL__EGRESS__ALLOW_CIDRS", "127.0.0.0/8")];
        recipe.set_up(folder.path(), &setup_file(CLASS, &recipe.token(TENANT), &endpoints), &open).await?;
        let log = Arc::new(recipe.log()?);
        for kind in ["events", "deliveries", "journal", "attempts"] {
            recipe.online(&*log, &recipe.topic(kind)).await?;
        }
        let mail = Mail::new(args.partitions, Bodies::new(args.seed))?;
        let group = format!("{}{}.{PIPELINE}", recipe.prefix, plan.role.name());
        let topic = recipe.topic(plan.role.topic());
        let offsets = Offsets::new(&recipe.kafka, &group, &topic, args.partitions.get())?;
        let (fleet, role) = (Fleet::new(plan.role), plan.role);
        Ok(Self { args, recipe, log, mail, offsets, outage, folder, fleet, role })
    }

    /// Starts the replicas, then load, samples and acts side by side.
    pub(super) async fn run(&mut self, plan: &Plan) -> Result<Vec<Row>> {
        let now = Now::default();
        let Self { args, recipe, log, mail, offsets, outage, folder, fleet, role } = self;
        let with = (*args, &*recipe, folder.path());
        fleet.grow(plan.replicas, with, &now).await?;
        let topic = recipe.topic(role.topic());
        let began = Instant::now();
        let load = offer(plan, (log, &topic, mail), args.seed, began);
        let acts = async {
            for (at, act) in plan.acts {
                sleep_until(began + Duration::from_secs(u64::from(*at))).await;
                match act {
                    Act::Outage => outage.store(true, Ordering::Relaxed),
                    Act::Recovery => outage.store(false, Ordering::Relaxed),
                    Act::Start(_) | Act::Replace => {}
                }
                if matches!(act, Act::Outage | Act::Recovery) {
                    now.event(&format!("{act:?}").to_lowercase());
                }
                fleet.act(*act, with, &now).await?;
            }
            anyhow::Ok(())
        };
        let (rows, (), ()) = tokio::try_join!(sample(plan, offsets, &now, began), load, acts)?;
        fleet.stop().await?;
        Ok(rows)
    }

    pub(super) fn last_log_lines(&self) -> String {
        self.fleet.last_log_lines()
    }

    /// Ends the processes and removes what was made.
    pub(super) async fn end(self) {
        drop(self.fleet);
        self.log.close(CLOSE_WAIT).await;
        self.recipe.remove(&[]).await;
    }
}

async fn sample(plan: &Plan, offsets: &Offsets, now: &Now, began: Instant) -> Result<Vec<Row>> {
    let end = Duration::from_secs(u64::from(plan.seconds()));
    let mut tick = interval(SAMPLE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut rows = Vec::new();
    while began.elapsed() < end {
        tick.tick().await;
        let admins = now.admins.borrow().clone();
        let held = held(&admins).await?;
        let at = began.elapsed();
        let partitions = offsets.read().await?;
        let events = std::mem::take(&mut *now.events.borrow_mut());
        rows.push(Row { at, replicas: admins.len(), held, partitions, events });
    }
    Ok(rows)
}

/// Appends what the plan says, each part more or less by up to a half. What an append was late is made up for with the next.
async fn offer(
    plan: &Plan,
    (log, topic, mail): (&Arc<KafkaLog>, &str, &Mail),
    seed: u64,
    began: Instant,
) -> Result<()> {
    let mut random = XorShiftRng::seed_from_u64(seed);
    let (mut next, mut owed) = (0_u64, 0.0_f64);
    let end = f64::from(plan.seconds());
    let mut tick = interval(LOAD_EVERY);
    let mut before = 0.0;
    loop {
        tick.tick().await;
        let at = began.elapsed().as_secs_f64();
        if at >= end {
            return Ok(());
        }
        owed += f64::from(plan.rate(before)) * (at - before) * random.random_range(0.5..1.5);
        before = at;
        let count = owed.floor();
        owed -= count;
        let numbers = next..next + count as u64;
        next = numbers.end;
        let records = numbers.map(|number| match plan.role {
            Role::Deliver => mail.delivery(number, to(number)),
            Role::Match => mail.accepted(number, to(number)),
        });
        append(log, topic, records).await?;
    }
}

/// All mailboxes in turn.
fn to(number: u64) -> To {
    let turn = |number: u64, count: u32| u32::try_from(number % u64::from(count)).unwrap_or(0);
    To { endpoint: turn(number, ENDPOINTS), bucket: turn(number / u64::from(ENDPOINTS), WIDTH) }
}
