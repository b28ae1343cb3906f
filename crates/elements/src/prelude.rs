//! Imports that nearly every element uses.

pub(crate) use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Flags, Handler,
    HandlerError, InitContext, Notifies, Packet, Purpose, Share, Signal, handlers, parse,
};
pub(crate) use europa_pool::packet::annotation;

pub(crate) use crate::shared::delegate::delegate;
