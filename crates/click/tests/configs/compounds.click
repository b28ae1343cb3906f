# 1 "compounds.click.in"
elementclass Stamp {
    $text | input -> Print("<$text>") -> output
|| $text, TIMES $times |
    elementclass Once { $text | input -> Print($text $times) -> output }
    input -> Once(${text}-${length-0}) -> output
|| input -> Null -> output; input[1] -> Null -> [1] output
}
elementclass Twice { -> Stamp(a) -> { $n | -> Stamp(b, TIMES $n) -> } (2) -> }
elementclass Diamond { $x |
    input -> t :: Tee => a :: Stamp($x), b :: Stamp($x, TIMES 3), (-> Counter ->) -> output
}
define($length 40)

s1, s2 :: TimedSource(0.1, \<48 65 6c 6c 6f>);
s1, s2 => pair :: Stamp => Twice, Diamond("x, \"y\"") -> join :: Queue;
join -> Unqueue => [0] wide :: Wide [0, 1] -> end :: Discard;
Idle -> [1] wide;
elementclass Last Discard
TimedSource -> Last
