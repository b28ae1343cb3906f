//! Benchmarks: testbed, generators, references, reports.
