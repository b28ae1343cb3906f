//! The privileged code: namespaces, cgroups, seccomp, landlock, capabilities.
