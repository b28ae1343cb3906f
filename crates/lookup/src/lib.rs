//! Route look-up: DIR-24-8 for IPv4, a multibit trie for IPv6.
