//! Workers that move descriptors from the routers' rings to the transmit list.
