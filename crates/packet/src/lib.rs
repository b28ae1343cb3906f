//! Headers, checksums and addresses.
