//! End-to-end tests with real namespaces and traffic.
