//! Supervises the switch and the routers of one host; owns desired state.
