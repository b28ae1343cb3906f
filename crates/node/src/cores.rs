//! Which CPUs are Europa's.

use europa_api::{Problem, Router};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs that this process may use. The switch polls on the last one: interrupts and other
/// processes tend to use the first ones. Routers may run on all of them, unless their document
/// names CPUs: the kernel places them well, and a packet that finds router and switch on different
/// cores is forwarded in half the time.
pub(crate) fn cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// The argument with a process's CPUs.
pub(crate) fn argument(cpus: &[usize]) -> String {
    let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
    format!("--cpus={}", numbers.join(","))
}

/// Reports CPUs of a router that are not in `known`.
pub(crate) fn check(router: &Router, known: &[usize], problems: &mut Vec<Problem>) {
    for cpu in router.cpu.iter().filter(|cpu| !known.contains(&usize::from(cpu.value))) {
        let all: Vec<String> = known.iter().map(usize::to_string).collect();
        problems.push(
            Problem::new(cpu.place, format!("there is no CPU {cpu} that routers may use"))
                .label("no such CPU")
                .help(format!("there are: {}", all.join(", "))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::{Problems, Source, parse};

    #[test]
    fn cpus_are_those_of_the_machine() {
        let text = "kind: slice\nname: s\n---\nkind: router\nname: r\nslice: s\n\
                    interfaces: {}\nfast_path: {click: Idle}\ncpu: [1, 99]\n";
        let sources = [Source { path: "t.yaml".into(), text: text.to_owned() }];
        let documents = parse(&sources).unwrap_or_else(|p| panic!("{}", p.render(false)));
        let mut problems = Vec::new();
        check(&documents.routers[0], &[0, 1], &mut problems);
        let report = Problems::new(problems, &sources).render(false);
        for part in ["there is no CPU 99", "t.yaml:9:10", "there are: 0, 1"] {
            assert!(report.contains(part), "{part} is not in\n{report}");
        }
        assert!(!report.contains("no CPU 1 "), "{report}");
    }
}
