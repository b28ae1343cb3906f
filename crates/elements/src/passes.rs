//! Defines which elements share one loop over a batch; see [`Pass`].
//!
//! Stages of a pass are in the usual order of these elements in configurations. Any of them may be
//! missing: testing for a stage costs less than a separate loop.

use std::any::Any;

use europa_engine::{
    Batch, Context, Each, Element, Fused, Main, Members, Packet, Pass, STAGES, Stop, Verdict,
};

use crate::check::check_ip_header::CheckIPHeader;
use crate::check::drop_broadcasts::DropBroadcasts;
use crate::check::drop_martians::DropMartians;
use crate::edit::dec_ip_ttl::DecIPTTL;
use crate::edit::fix_ip_src::FixIPSrc;
use crate::edit::get_ip_address::GetIPAddress;
use crate::edit::paint::Paint;
use crate::edit::strip::Strip;
use crate::encap::ether_encap::EtherEncap;
use crate::filter::classifier::Classifier;
use crate::forward::ip_fragmenter::IPFragmenter;
use crate::forward::ip_gw_options::IPGWOptions;
use crate::lookup::direct_ip_lookup::DirectIPLookup;
use crate::lookup::radix_ip_lookup::RadixIPLookup;
use crate::lookup::static_ip_lookup::StaticIPLookup;
use crate::neighbours::arp_querier::ARPQuerier;
use crate::shared::ip_routes::IpRoutes;
use crate::switching::paint_tee::PaintTee;

/// The subject of a stage: an element, or the common part of several classes.
trait Stage: Sized {
    /// The member for an element, if its class has one.
    fn of(element: &mut dyn Element) -> Option<&mut Self>;

    fn begin(&mut self, context: &Context<'_>);

    fn each(&mut self, packet: &mut Packet, main: u16) -> Verdict;
}

impl<T: Each> Stage for T {
    fn of(element: &mut dyn Element) -> Option<&mut T> {
        (element as &mut dyn Any).downcast_mut()
    }

    #[inline(always)]
    fn begin(&mut self, context: &Context<'_>) {
        Each::begin(self, context);
    }

    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, main: u16) -> Verdict {
        Each::each(self, packet, main)
    }
}

impl Stage for IpRoutes {
    fn of(element: &mut dyn Element) -> Option<&mut IpRoutes> {
        let element: &mut dyn Any = element;
        if element.is::<RadixIPLookup>() {
            return element.downcast_mut().map(|RadixIPLookup(routes)| routes);
        }
        if element.is::<DirectIPLookup>() {
            return element.downcast_mut().map(|DirectIPLookup(routes)| routes);
        }
        element.downcast_mut().map(|StaticIPLookup(routes)| routes)
    }

    #[inline(always)]
    fn begin(&mut self, _: &Context<'_>) {
        IpRoutes::begin(self);
    }

    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        self.note(packet);
        Verdict::ON
    }
}

/// The member of a stage in the stage's form.
fn member<T: Stage>(slot: &mut Option<Box<dyn Element>>) -> Option<&mut T> {
    slot.as_deref_mut().and_then(T::of)
}

/// The part of a pass that its stages determine.
macro_rules! stages {
    ($($number:literal $name:ident: $class:ty,)* [$($exact:literal)*]) => {
        fn fits(&self, stage: usize, element: &mut dyn Element) -> bool {
            match stage {
                $($number => <$class as Stage>::of(element).is_some(),)*
                _ => false,
            }
        }

        fn run(
            &self,
            members: &mut Members,
            batch: &mut Batch,
            start: usize,
            limit: usize,
            fused: &mut Fused<'_, '_>,
        ) -> Option<Stop> {
            /// EXACT has a bit for each stage that is present, so that the pass need not test for
            /// stages at each packet; 0 allows any stages.
            fn run<const EXACT: u32, const LIMITED: bool>(
                members: &mut Members,
                batch: &mut Batch,
                start: usize,
                limit: usize,
                fused: &mut Fused<'_, '_>,
            ) -> Option<Stop> {
                let [$($name,)* ..] = members;
                $(let mut $name = match EXACT == 0 || EXACT >> $number & 1 == 1 {
                    true => member::<$class>($name),
                    false => None,
                };)*
                // This branch is never taken: members never change their class. It tells the
                // compiler that the member exists.
                $(if EXACT >> $number & 1 == 1 && $name.is_none() {
                    return Some((0, Verdict::ALONE.code(0)));
                })*
                $(if let Some(stage) = &mut $name {
                    Stage::begin(&mut **stage, fused.context());
                })*
                let main: Main = *fused.main();
                let judge = |packet: &mut Packet| {
                    $(if let Some(stage) = &mut $name
                        && (!LIMITED || $number < limit)
                    {
                        let verdict = Stage::each(&mut **stage, packet, main[$number]);
                        if verdict != Verdict::ON {
                            return verdict.code($number);
                        }
                    })*
                    0
                };
                batch.sift(start, judge, |packet, code| fused.leave(packet, code))
            }
            let present = members.iter().enumerate().map(|(stage, m)| u32::from(m.is_some()) << stage);
            match present.sum::<u32>() {
                _ if limit < STAGES => run::<0, true>(members, batch, start, limit, fused),
                $($exact => run::<$exact, false>(members, batch, start, limit, fused),)*
                _ => run::<0, false>(members, batch, start, limit, fused),
            }
        }
    };
}

/// The stages from the link to the route.
pub(crate) struct Ingress;

impl Pass for Ingress {
    stages! {
        0 classifier: Classifier,
        1 paint: Paint,
        2 strip: Strip,
        3 check: CheckIPHeader,
        4 martians: DropMartians,
        5 address: GetIPAddress,
        6 routes: IpRoutes,
        // Click's standard router; ours.
        [0b110_1111 0b101_1111]
    }

    fn branches(&self, stage: usize) -> bool {
        stage == 0
    }

    fn suits(&self, members: &mut Members, main: &Main, first: &Packet) -> bool {
        // A batch that leaves elsewhere as a whole is handled faster without a pass.
        let [classifier, ..] = members;
        member::<Classifier>(classifier).is_none_or(|c| c.output(first) == main[0])
    }

    fn finish(&self, members: &mut Members, batch: &mut Batch, context: &mut Context<'_>) {
        let [.., routes, _] = members;
        match member::<IpRoutes>(routes) {
            Some(routes) => routes.finish(batch, context),
            None => context.forward(0, batch),
        }
    }
}

/// The stages from the route to the link.
pub(crate) struct Egress;

impl Pass for Egress {
    stages! {
        0 broadcasts: DropBroadcasts,
        1 tee: PaintTee,
        2 options: IPGWOptions,
        3 source: FixIPSrc,
        4 ttl: DecIPTTL,
        5 fragmenter: IPFragmenter,
        6 encap: EtherEncap,
        7 querier: ARPQuerier,
        [0b0111_1111 0b1011_1111]
    }

    fn branches(&self, _: usize) -> bool {
        false
    }

    fn suits(&self, _: &mut Members, _: &Main, _: &Packet) -> bool {
        true
    }

    fn finish(&self, members: &mut Members, batch: &mut Batch, context: &mut Context<'_>) {
        let [.., querier] = members;
        if let Some(querier) = member::<ARPQuerier>(querier) {
            querier.set_alarm(context);
        }
        context.forward(0, batch);
    }
}

#[cfg(test)]
mod tests;
