//! Loads, pins and attaches the eBPF programs; runs kicks.
