//! The system call lists as filters in the kernel.
//!
//! The filters give three answers in addition to "allowed". A call in no list kills the process. A
//! *refused* call, which a harmless library may try (opening a file to print a backtrace, checking
//! whether a descriptor is a terminal), fails with `EPERM`. `clone3`, whose flags a filter cannot
//! see, fails with `ENOSYS`; libc then uses `clone`. A filter has only one such answer, so these
//! are three filters; the kernel applies the strictest answer. Calls that are allowed with any
//! arguments cost nothing: the kernel keeps a bitmap of them and does not run the filters.

mod tables;

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::error::SandboxError;
use crate::profile::{Enforcement, Role};
use tables::{Call, Group, Test};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

/// Rules by system call; an empty list of rules means "any arguments".
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// System calls that some processes of a role need and others do not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside {
    /// Creating threads.
    pub(crate) threads: bool,
    /// Allows sharing memory with processes that pass their memory.
    pub(crate) shares_memory: bool,
}

/// Applies the filters of `role`, with the additional calls.
pub(crate) fn apply(
    role: Role,
    beside: Beside,
    enforcement: Enforcement,
) -> Result<(), SandboxError> {
    for filter in filters(role, beside, enforcement)? {
        apply_filter(&filter)?;
    }
    Ok(())
}

/// The filters in the order in which they must be applied: each filter must allow the application
/// of the next one.
fn filters(
    role: Role,
    beside: Beside,
    enforcement: Enforcement,
) -> Result<[BpfProgram; 3], SandboxError> {
    let (kill, refuse) = match enforcement {
        Enforcement::Kill => (SeccompAction::KillProcess, SeccompAction::Errno(libc::EPERM as u32)),
        Enforcement::NotImplemented => {
            (SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Errno(libc::EPERM as u32))
        }
        Enforcement::Log => (SeccompAction::Log, SeccompAction::Log),
    };
    let threads: &[Group] = if beside.threads { tables::THREADS } else { &[] };
    let memory: &[Group] = if beside.shares_memory { tables::SHARED_MEMORY } else { &[] };
    let allowed = rules(tables::allowed(role).chain(threads).chain(memory))?;
    let refused = rules(tables::refused(role))?;

    // A refused call passes the last filter ...
    let mut survivable = allowed.clone();
    survivable.extend(refused.into_keys().map(|number| (number, Vec::new())));
    survivable.insert(libc::SYS_clone3, Vec::new());
    // ... but not the second filter, which must also allow the application of the last one.
    let mut permitted = allowed;
    permitted.insert(libc::SYS_clone3, Vec::new());
    permitted.insert(libc::SYS_seccomp, Vec::new());
    permitted
        .entry(libc::SYS_prctl)
        .or_default()
        .extend(rule(&[Test::Equal(0, libc::PR_SET_NO_NEW_PRIVS as u64)])?);
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);

    Ok([
        compile(absent, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?,
        compile(permitted, refuse, SeccompAction::Allow)?,
        compile(survivable, kill, SeccompAction::Allow)?,
    ])
}

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    on_match: SeccompAction,
) -> Result<BpfProgram, SandboxError> {
    let filter = SeccompFilter::new(rules, otherwise, on_match, ARCHITECTURE)?;
    Ok(filter.try_into()?)
}

/// Merges groups. If any group allows a call without tests, the call is allowed with all arguments,
/// even if other groups test them.
fn rules<'a>(groups: impl Iterator<Item = &'a Group>) -> Result<Rules, SandboxError> {
    let mut rules = Rules::new();
    for Call { number, tests } in groups.flat_map(|group| group.calls) {
        let number: c_long = *number;
        if tests.is_empty() {
            rules.insert(number, Vec::new());
        } else if rules.get(&number).is_none_or(|known| !known.is_empty()) {
            rules.entry(number).or_default().extend(rule(tests)?);
        }
    }
    Ok(rules)
}

/// All tests of a call must hold; each alternative becomes a rule of its own.
fn rule(tests: &[Test]) -> Result<Vec<SeccompRule>, SandboxError> {
    let mut alternatives: Vec<Vec<SeccompCondition>> = vec![Vec::new()];
    for test in tests {
        let choices = match *test {
            Test::Equal(argument, value) => vec![condition(argument, SeccompCmpOp::Eq, value)?],
            Test::Masked(argument, mask, value) => {
                vec![condition(argument, SeccompCmpOp::MaskedEq(mask), value)?]
            }
            Test::OneOf(argument, values) => values
                .iter()
                .map(|&value| condition(argument, SeccompCmpOp::Eq, value))
                .collect::<Result<_, _>>()?,
        };
        alternatives = alternatives
            .iter()
            .flat_map(|so_far| {
                choices
                    .iter()
                    .map(move |choice| [so_far.as_slice(), std::slice::from_ref(choice)].concat())
            })
            .collect();
    }
    Ok(alternatives.into_iter().map(SeccompRule::new).collect::<Result<_, _>>()?)
}

/// Compares the low 32 bits. For the kernel every tested argument is an `int` or `unsigned int`,
/// whose upper half it ignores. The flags of `clone` and the protection of `mmap` are longs, but
/// their upper half has no meaning.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, SandboxError> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 3] = [Role::Router, Role::Switch, Role::Program];

    #[test]
    fn every_role_compiles() {
        for role in ROLES {
            for beside in [(false, false), (true, false), (false, true), (true, true)] {
                let beside = Beside { threads: beside.0, shares_memory: beside.1 };
                let filters = filters(role, beside, Enforcement::Kill)
                    .expect("the tables make valid filters");
                // The kernel refuses filters of more than 4096 instructions.
                assert!(filters.iter().all(|filter| !filter.is_empty() && filter.len() < 4096));
            }
        }
    }

    #[test]
    fn no_role_may_do_these() {
        let never = [
            ("socket", libc::SYS_socket),
            ("socketpair", libc::SYS_socketpair),
            ("connect", libc::SYS_connect),
            ("bind", libc::SYS_bind),
            ("listen", libc::SYS_listen),
            ("ptrace", libc::SYS_ptrace),
            ("process_vm_writev", libc::SYS_process_vm_writev),
            ("pidfd_getfd", libc::SYS_pidfd_getfd),
            ("unshare", libc::SYS_unshare),
            ("setns", libc::SYS_setns),
            ("mount", libc::SYS_mount),
            ("fsopen", libc::SYS_fsopen),
            ("io_uring_setup", libc::SYS_io_uring_setup),
            ("perf_event_open", libc::SYS_perf_event_open),
            ("userfaultfd", libc::SYS_userfaultfd),
            ("keyctl", libc::SYS_keyctl),
            ("add_key", libc::SYS_add_key),
            ("init_module", libc::SYS_init_module),
            ("kill", libc::SYS_kill),
            ("seccomp", libc::SYS_seccomp),
            ("setuid", libc::SYS_setuid),
            ("personality", libc::SYS_personality),
        ];
        for role in ROLES {
            let beside = tables::THREADS.iter().chain(tables::SHARED_MEMORY);
            let allowed = rules(tables::allowed(role).chain(beside)).expect("valid");
            for (name, number) in never {
                assert!(!allowed.contains_key(&number), "{role:?} may {name}");
            }
            assert_eq!(allowed.contains_key(&libc::SYS_bpf), role == Role::Switch, "{role:?}: bpf");
            assert_eq!(
                allowed.contains_key(&libc::SYS_execve),
                role == Role::Program,
                "{role:?}: execve"
            );
            assert_eq!(
                allowed.contains_key(&libc::SYS_openat),
                role == Role::Program,
                "{role:?}: openat"
            );
        }
    }

    /// Only a role with shared memory needs these calls.
    #[test]
    fn asynchronous_requests_are_for_those_who_share_memory() {
        let has = |groups: &mut dyn Iterator<Item = &'static Group>| {
            rules(groups).expect("valid").contains_key(&libc::SYS_io_submit)
        };
        for role in ROLES {
            assert!(!has(&mut tables::allowed(role).chain(tables::THREADS)), "{role:?}");
        }
        assert!(has(&mut tables::SHARED_MEMORY.iter()));
    }

    #[test]
    fn every_group_has_a_reason() {
        for role in ROLES {
            let beside = tables::THREADS.iter().chain(tables::SHARED_MEMORY);
            for group in tables::allowed(role).chain(tables::refused(role)).chain(beside) {
                assert!(
                    group.reason.len() > 10 && !group.calls.is_empty(),
                    "{role:?}: {:?}",
                    group.reason
                );
            }
        }
    }

    #[test]
    fn alternatives_multiply_and_unconditional_wins() {
        let two = rule(&[Test::Equal(1, 1), Test::OneOf(2, &[20, 21])]).expect("valid");
        assert_eq!(two.len(), 2);
        const CALL: Group = Group { reason: "", calls: &[Call { number: 1, tests: &[] }] };
        const TESTED: Group =
            Group { reason: "", calls: &[Call { number: 1, tests: &[Test::Equal(0, 0)] }] };
        for order in [[&CALL, &TESTED], [&TESTED, &CALL]] {
            let merged = rules(order.into_iter()).expect("valid");
            assert!(merged.get(&1).is_some_and(Vec::is_empty));
        }
    }
}
