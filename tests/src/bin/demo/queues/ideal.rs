//! Ideal fair queueing: the rate that each sender would get if packets could be cut anywhere.

/// Shares a port among senders by weight: no sender gets more than it sends, and other senders get
/// unused shares. All values have the same unit.
pub(crate) fn fair(capacity: f64, sends: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut gets = vec![0.0; sends.len()];
    let mut left = capacity;
    let mut open: Vec<usize> = (0..sends.len()).collect();
    while !open.is_empty() {
        let sum: f64 = open.iter().map(|at| weights[*at]).sum();
        let part = |at: usize| left * weights[at] / sum;
        let (content, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|at| sends[**at] <= part(**at));
        if content.is_empty() {
            rest.iter().for_each(|at| gets[*at] = part(*at));
            break;
        }
        content.iter().for_each(|at| gets[*at] = sends[*at]);
        left -= content.iter().map(|at| sends[*at]).sum::<f64>();
        open = rest;
    }
    gets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_leaves_the_others_have() {
        for (sends, weights, gets) in [
            ([400.0, 0.0, 0.0], [3.0, 2.0, 1.0], [400.0, 0.0, 0.0]),
            ([900.0, 900.0, 900.0], [3.0, 2.0, 1.0], [500.0, 1000.0 / 3.0, 500.0 / 3.0]),
            ([900.0, 100.0, 900.0], [3.0, 2.0, 1.0], [675.0, 100.0, 225.0]),
            ([100.0, 200.0, 300.0], [3.0, 2.0, 1.0], [100.0, 200.0, 300.0]),
        ] {
            let found = fair(1000.0, &sends, &weights);
            let off = found.iter().zip(gets).map(|(found, gets)| (found - gets).abs());
            assert!(off.fold(0.0, f64::max) < 1e-9, "{found:?} for {sends:?}");
        }
    }
}
