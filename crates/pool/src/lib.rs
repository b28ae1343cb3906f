//! The packet pool: shared-memory layout, rings and packet handles.
