use mailrail_sim::journal::{Mutation, run};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (from, n): (u64, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    let mutation = args
        .get(3)
        .filter(|a| !a.is_empty())
        .map(|name| Mutation::ALL.iter().find(|m| m.name == name).unwrap().clone());
    if args.get(4).is_some() {
        let mut p = |line: String| println!("{line}");
        let r = run(from, mutation.as_ref(), Some(&mut p));
        println!("{r:?}");
        return;
    }
    let mut kinds = std::collections::BTreeMap::<String, (u64, u64, String)>::new();
    let (mut d, mut t) = (0, 0);
    let start = std::time::Instant::now();
    for seed in from..from + n {
        let r = run(seed, mutation.as_ref(), None);
        d += r.deliveries;
        t += r.takeovers;
        if let Some(f) = r.failure {
            let k = format!("{f:?}");
            let k = k.split([' ', '(']).next().unwrap().to_owned();
            let k = if k == "Panicked" { format!("{f}").chars().take(60).collect() } else { k };
            let e = kinds.entry(k).or_insert((0, seed, f.to_string()));
            e.0 += 1;
        }
    }
    println!("{n} seeds {d} deliveries {t} takeovers {:?}", start.elapsed());
    for (k, v) in kinds {
        println!("{k}: {} first {} {}", v.0, v.1, v.2);
    }
}
