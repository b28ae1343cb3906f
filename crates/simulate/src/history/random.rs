//! Random operations of a history, from a seed.

use fastrand::Rng;

use crate::documents::{Choice, first, next};

/// An operation on a node.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(super) what: What,
    /// Seed of the faults during it.
    pub(super) seed: u64,
    pub(super) faulty: bool,
}

/// The kinds of operations.
#[derive(Clone, Debug)]
pub(super) enum What {
    Apply(Choice),
    DryRun(Choice),
    /// Another program changes objects while the plan is computed.
    Meanwhile(Choice),
    /// Two changes at a time; the second was checked against the state before the first.
    Two(Choice, Choice),
    Kill,
    KillSwitch,
    KillRouter,
    /// A device disappears, and returns some seconds later.
    DeviceGoes(u8, u8),
    ByHand,
    Number(u8),
    Wait,
}

/// The operations of a seed.
pub fn operations(seed: u64) -> Vec<Operation> {
    let mut rng = Rng::with_seed(seed);
    let mut choice = first(&mut rng);
    let count = rng.usize(50..120);
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let what = match rng.u8(..20) {
            0..=9 => {
                choice = next(&choice, &mut rng);
                What::Apply(choice.clone())
            }
            10 | 11 => {
                choice = next(&choice, &mut rng);
                What::DryRun(choice.clone())
            }
            12 => {
                let one = next(&choice, &mut rng);
                choice = next(&choice, &mut rng);
                What::Two(one, choice.clone())
            }
            13 => What::Kill,
            14 => What::KillSwitch,
            15 => What::KillRouter,
            16 => What::DeviceGoes(rng.u8(..4), rng.u8(1..40)),
            17 | 18 => match rng.u8(..3) {
                0 => What::ByHand,
                1 => What::Wait,
                _ => {
                    choice = next(&choice, &mut rng);
                    What::Meanwhile(choice.clone())
                }
            },
            _ => What::Number(rng.u8(..3)),
        };
        all.push(Operation { what, seed: rng.u64(..), faulty: rng.u8(..4) != 0 });
    }
    all
}
