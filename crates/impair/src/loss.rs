//! Which packets are lost.

use crate::random::Random;
use crate::settings::Loss;

/// Decides whether a packet is lost; `bad` is the state between packets.
pub(crate) fn is_lost(loss: &Loss, bad: &mut bool, random: &mut Random) -> bool {
    match *loss {
        Loss::Independent { share } => random.happens(share),
        Loss::Bursts { begin, end, bad: in_bad, good } => {
            let turns = random.happens(if *bad { end } else { begin });
            *bad ^= turns;
            random.happens(if *bad { in_bad } else { good })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share lost and mean length of a burst.
    fn measure(loss: Loss) -> (f64, f64) {
        const COUNT: usize = 400_000;
        let (mut bad, mut random) = (false, Random::new(5));
        let lost: Vec<bool> = (0..COUNT).map(|_| is_lost(&loss, &mut bad, &mut random)).collect();
        let count = lost.iter().filter(|lost| **lost).count() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        (count / COUNT as f64, count / bursts.max(1.0))
    }

    #[test]
    fn losses_have_their_share_and_their_bursts() {
        for (loss, share, burst) in [
            (Loss::Independent { share: 0.05 }, 0.05, 1.0 / 0.95),
            // The link is bad for begin / (begin + end) of the packets, and for 1 / end packets
            // each time.
            (Loss::Bursts { begin: 0.01, end: 0.1, bad: 1.0, good: 0.0 }, 0.0909, 10.0),
            (Loss::Bursts { begin: 0.02, end: 0.2, bad: 0.5, good: 0.0 }, 0.0455, 1.67),
            (Loss::Bursts { begin: 0.0, end: 0.2, bad: 1.0, good: 0.1 }, 0.1, 1.11),
        ] {
            let (found_share, found_burst) = measure(loss);
            assert!((found_share / share - 1.0).abs() < 0.05, "{loss:?}: {found_share}");
            assert!((found_burst / burst - 1.0).abs() < 0.05, "{loss:?}: {found_burst}");
        }
    }
}
