//! # Every
//!
//! ## Synopsis
//! `Every(N)`
//!
//! ## Ports
//! One input; output 0 gets one packet of N; output 1, if connected, gets the others. Push or pull.
//!
//! ## Description
//! Passes the first packet, and after that each Nth one.
//!
//! ## Arguments
//! - N: at least 1.
//!
//! ## Handlers
//! - `n` (read, write): see N.
//! - `others` (read): packets that were not passed.
//!
//! ## See also
//! `RandomSample`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, HandlerError, arguments, handlers,
    keep, parse,
};

/// Passes one packet of N.
#[derive(Default)]
pub(crate) struct Every {
    n: u32,
    /// Packets since the last passed one.
    since: u32,
    others: u64,
}

impl Class for Every {
    const INFO: ClassInfo = ClassInfo::new("Every", "1/1-2").processing("a/ah");
}

impl Every {
    fn set(&mut self, n: u32) -> Result<(), &'static str> {
        if n == 0 {
            return Err("N must be at least 1");
        }
        (self.n, self.since) = (n, n - 1);
        Ok(())
    }
}

impl Element for Every {
    arguments! { this, given;
        let n = mandatory "N": u32;
        then { this.set(n).map_err(ConfigError::other)?; }
    }

    // The packet path: no allocation, no lock, no code that can panic.
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let before = batch.len();
        let (n, since) = (self.n, &mut self.since);
        batch.filter(
            |_| {
                *since = (*since + 1) % n;
                *since == 0
            },
            |other| context.push(1, other),
        );
        self.others += (before - batch.len()) as u64;
    }

    // A new configuration takes over the state of an element of the same name and class.
    keep! { this, old;
        others;
        then { this.since = old.since.min(this.n - 1); }
    }

    handlers! { this, context, value;
        both "n" => this.n, set {
            let set = this.set(parse("n", value)?);
            set.map_err(|why| HandlerError::Other(why.to_owned()))?;
        };
        read "others" => this.others;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    /// Runs a hundred packets through the element; returns the values of its handlers and of two
    /// counters.
    fn run(n: &str) -> Result<[String; 3], String> {
        let mut registry = europa_driver::registry();
        registry.add::<super::Every>();
        let mut graph = Graph::default();
        let source = graph.add("source", "InfiniteSource", &["LIMIT 100"]);
        let every = graph.add("every", "Every", &[n]);
        graph.connect(source, 0, every, 0);
        for (output, name) in ["passed", "others"].into_iter().enumerate() {
            let counter = graph.add(name, "Counter", &[]);
            let end = graph.add(&format!("{name}end"), "Discard", &[]);
            graph.connect(every, output, counter, 0);
            graph.connect(counter, 0, end, 0);
        }
        let graph = graph.resolved(&registry);
        let arena = Arena::heap(512, 2048);
        let router = Router::build(&graph, &registry, &arena, &NoDevices, 0);
        let mut router = router.map_err(|errors| errors[0].to_string())?;
        while router.run_once(0, &mut NoDevices) {}
        Ok(["every.others", "passed.count", "others.count"]
            .map(|path| router.read(path, "").unwrap()))
    }

    #[test]
    fn one_of_n_passes() {
        for (n, expected) in
            [("1", ["0", "100", "0"]), ("10", ["90", "10", "90"]), ("1000", ["99", "1", "99"])]
        {
            assert_eq!(run(n), Ok(expected.map(str::to_owned)), "{n}");
        }
        assert!(run("0").unwrap_err().contains("N must be at least 1"));
    }
}
