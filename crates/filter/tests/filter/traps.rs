//! The correctness traps of the matching notes (section 5), one test for each part, and every operator.

use crate::verdict::{check, judge};

#[test]
fn numbers_are_exact_decimals() {
    for one in ["1.0", "10e-1", "0.1e1", "1e0", "1E0", "1e+0", "1E+00", "1e00", "1"] {
        check(&[(r#"{"a":[1]}"#, &format!(r#"{{"a":{one}}}"#), true)]);
        check(&[(&format!(r#"{{"a":[{one}]}}"#), r#"{"a":1}"#, true)]);
    }
    check(&[
        (r#"{"a":[0]}"#, r#"{"a":-0}"#, true),
        (r#"{"a":[0]}"#, r#"{"a":-0.0}"#, true),
        (r#"{"a":[9007199254740993]}"#, r#"{"a":9007199254740992}"#, false),
        (r#"{"a":[9007199254740993]}"#, r#"{"a":9007199254740993.0}"#, true),
        (r#"{"a":[12345678901234567890]}"#, r#"{"a":12345678901234567891}"#, false),
        (r#"{"a":[0.1]}"#, r#"{"a":0.10000000000000001}"#, false),
        (r#"{"a":[1e400]}"#, r#"{"a":1e400}"#, true),
        (r#"{"a":[{"numeric":[">",9007199254740992]}]}"#, r#"{"a":9007199254740993}"#, true),
        (r#"{"a":[{"numeric":["<",1]}]}"#, r#"{"a":1e-400}"#, true),
        (r#"{"a":[{"numeric":[">",0]}]}"#, r#"{"a":1e-99999999999999999999}"#, true),
        (r#"{"a":[{"numeric":[">",0]}]}"#, r#"{"a":1e99999999999999999999}"#, true),
        (r#"{"a":[{"anything-but":[404]}]}"#, r#"{"a":404.0}"#, false),
        (r#"{"a":[{"numeric":["=",5]}]}"#, r#"{"a":"5"}"#, false),
        (r#"{"a":[5]}"#, r#"{"a":"5"}"#, false),
        (r#"{"a":["5"]}"#, r#"{"a":5}"#, false),
        (r#"{"a":[1]}"#, r#"{"a":01}"#, false),
        (r#"{"a":[1]}"#, r#"{"a":1.}"#, false),
        (r#"{"a":[1]}"#, r#"{"a":true}"#, false),
    ]);
}

#[test]
fn numeric_ranges_include_what_they_say() {
    for (range, inside, outside) in [
        (r#"[">",0,"<=",5]"#, &["0.1", "5", "5.0"][..], &["0", "-0", "5.00000000000000001", "-1"][..]),
        (r#"[">=",0,"<",5]"#, &["0", "-0.0", "4.999"], &["5", "-1e-30"]),
        (r#"["<",10]"#, &["9", "-1e30"], &["10", "10.0", "1e2"]),
        (r#"["<=",-3.5]"#, &["-3.5", "-35e-1", "-4"], &["-3.4", "3.5"]),
        (r#"["=",3.018e2]"#, &["301.8", "301.80"], &["301", "-301.8"]),
        (r#"["<",5,">",0]"#, &["1"], &["0", "5"]),
        (r#"[">=",5,"<=",5]"#, &["5"], &["4", "6"]),
    ] {
        let pattern = format!(r#"{{"a":[{{"numeric":{range}}}]}}"#);
        for (numbers, expected) in [(inside, true), (outside, false)] {
            for number in numbers {
                check(&[(&pattern, &format!(r#"{{"a":{number}}}"#), expected)]);
            }
        }
        for other in ["\"1\"", "null", "true", "{}", "[]"] {
            check(&[(&pattern, &format!(r#"{{"a":{other}}}"#), false)]);
        }
    }
}

#[test]
fn duplicate_keys_last_wins_and_nothing_is_lost() {
    check(&[
        (r#"{"a":[1]}"#, r#"{"a":1,"a":2}"#, false),
        (r#"{"a":[2]}"#, r#"{"a":1,"a":2}"#, true),
        (r#"{"a":[2],"b":[3]}"#, r#"{"a":1,"a":2,"b":3}"#, true),
        (r#"{"a":[1],"b":[3]}"#, r#"{"a":1,"a":2,"b":3}"#, false),
        (r#"{"o":{"b":[2]}}"#, r#"{"o":{"a":1},"o":{"b":2}}"#, true),
        (r#"{"o":{"a":[1]}}"#, r#"{"o":{"a":1},"o":{"b":2}}"#, false),
        (r#"{"o":{"a":[{"exists":false}]}}"#, r#"{"o":{"a":1},"o":{"b":2}}"#, true),
        (r#"{"a":[2]}"#, r#"{"a":1,"\u0061":2}"#, true),
    ]);
}

#[test]
fn strings_are_compared_after_unescaping_and_not_normalised() {
    check(&[
        (r#"{"a":["A"]}"#, r#"{"a":"\u0041"}"#, true),
        (r#"{"a":[1]}"#, r#"{"\u0061":1}"#, true),
        (r#"{"a":["😀"]}"#, r#"{"a":"\ud83d\ude00"}"#, true),
        (r#"{"a":["\ud83d\ude00"]}"#, r#"{"a":"😀"}"#, true),
        (r#"{"a":["/"]}"#, r#"{"a":"\/"}"#, true),
        (r#"{"a":["é"]}"#, "{\"a\":\"e\u{301}\"}", false),
        // Lone surrogates match nothing, and the event is not JSON for anyone else either.
        (r#"{"a":["\ufffd"]}"#, r#"{"a":"\ud800"}"#, false),
        (r#"{"a":["?"]}"#, r#"{"a":"\ud800"}"#, false),
        (r#"{"b":[1]}"#, r#"{"a":"\ud800","b":1}"#, false),
        (r#"{"b":[1]}"#, "{\"a\":\"\u{1}\",\"b\":1}", false),
        (r#"{"b":[1]}"#, r#"{"b":1} {"b":2}"#, false),
        (r#"{"b":[1]}"#, r#"{"b":1,"a":"#, false),
        (r#"{"a":[{"suffix":"ß"}]}"#, r#"{"a":"Spaß"}"#, true),
        (r#"{"a":[{"suffix":"\u009f"}]}"#, r#"{"a":"Spaß"}"#, false),
        (r#"{"a":[{"suffix":"😀"}]}"#, r#"{"a":"x😀"}"#, true),
    ]);
    for body in
        [&b"{\"a\":\"\xff\"}"[..], b"{\"a\":\"\xc3\x28\"}", b"{\"a\":\"\xef\xbf\xbd\",\"b\":\"\xff\"}"]
    {
        for pattern in [r#"{"a":["\ufffd"]}"#, r#"{"a":[{"prefix":""}]}"#, r#"{"a":[{"exists":true}]}"#] {
            assert_eq!(judge(pattern, body), Ok(false), "{pattern}");
        }
    }
}

#[test]
fn arrays_match_by_element_and_consistently() {
    check(&[
        (r#"{"a":[1]}"#, r#"{"a":[2,[3,[1]]]}"#, true),
        (r#"{"a":{"b":[1]}}"#, r#"{"a":[[{"b":2}],[[{"b":1}]]]}"#, true),
        (r#"{"a":{"b":[1],"c":[2]}}"#, r#"{"a":[[{"b":1}],[{"c":2}]]}"#, false),
        (r#"{"a":{"b":[1],"c":[2]}}"#, r#"{"a":[[{"b":1},{"b":1,"c":2}]]}"#, true),
        (
            r#"{"bands":{"members":{"given":["Anna"],"surname":["Jones"]}}}"#,
            r#"{"bands":[{"members":[{"given":"Anna","surname":"Smith"},{"given":"Bob","surname":"Jones"}]}]}"#,
            false,
        ),
        (r#"{"a":{"b":[1]},"c":[9]}"#, r#"{"a":[{"b":1}],"c":[8,9]}"#, true),
        // Any other element satisfies anything-but; none-of looks at all of them.
        (r#"{"a":[{"anything-but":["banned"]}]}"#, r#"{"a":["banned","ok"]}"#, true),
        (r#"{"a":[{"anything-but":["banned"]}]}"#, r#"{"a":["banned"]}"#, false),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{"a":["banned","ok"]}"#, false),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{"a":["fine",["ok"]]}"#, true),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{"a":["fine",["ok",["banned"]]]}"#, false),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{"a":"ok"}"#, true),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{"a":[]}"#, false),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{"a":[{}]}"#, false),
        (r#"{"a":[{"none-of":["banned"]}]}"#, r#"{}"#, false),
        (r#"{"a":[{"none-of":["banned"]},"banned"]}"#, r#"{"a":["banned","ok"]}"#, true),
        (
            r#"{"d":{"t":[{"none-of":[1]}],"k":["x"]}}"#,
            r#"{"d":[{"t":[1,2],"k":"x"},{"t":[2],"k":"y"}]}"#,
            false,
        ),
        (
            r#"{"d":{"t":[{"none-of":[1]}],"k":["x"]}}"#,
            r#"{"d":[{"t":[1,2],"k":"y"},{"t":[2],"k":"x"}]}"#,
            true,
        ),
        (r#"{"a":{"b":[{"none-of":[2]}]}}"#, r#"{"a":[1,{"b":2}]}"#, false),
        // Absence is a fact of the whole event.
        (r#"{"u":{"n":["x"],"d":[{"exists":false}]}}"#, r#"{"u":[{"n":"x"},{"n":"y","d":1}]}"#, false),
        (r#"{"u":{"n":["x"],"z":[{"exists":false}]}}"#, r#"{"u":[{"n":"x"},{"n":"y","z":1}]}"#, false),
        (r#"{"u":{"n":["x"],"d":[{"exists":false}]}}"#, r#"{"u":[{"n":"x"},{"n":"y"}]}"#, true),
        (r#"{"u":{"n":["x"],"d":[{"exists":false},1]}}"#, r#"{"u":[{"n":"x","d":1},{"n":"y"}]}"#, true),
        (r#"{"u":{"n":["x"],"d":[{"exists":false},1]}}"#, r#"{"u":[{"n":"x"},{"n":"y","d":1}]}"#, false),
    ]);
}

#[test]
fn only_leaves_exist() {
    for (value, exists) in [
        ("null", true),
        ("0", true),
        ("false", true),
        ("\"\"", true),
        ("[1]", true),
        ("[[null]]", true),
        ("[{},1]", true),
        ("{}", false),
        (r#"{"c":1}"#, false),
        ("[]", false),
        ("[{}]", false),
        ("[[],[{}]]", false),
        (r#"[{"c":1}]"#, false),
    ] {
        let body = format!(r#"{{"a":{value}}}"#);
        check(&[
            (r#"{"a":[{"exists":true}]}"#, &body, exists),
            (r#"{"a":[{"exists":false}]}"#, &body, !exists),
            (r#"{"a":[{"exists":true},{"exists":false}]}"#, &body, true),
        ]);
    }
    check(&[
        (r#"{"a":[null]}"#, r#"{"a":null}"#, true),
        (r#"{"a":[null]}"#, "{}", false),
        (r#"{"a":[null]}"#, r#"{"a":"null"}"#, false),
        (r#"{"a":[{"exists":false}]}"#, "{}", true),
        (r#"{"a":[{"exists":false}]}"#, "[]", true),
        (r#"{"a":[{"exists":false}]}"#, "5", true),
        (r#"{"a":{"b":[{"exists":false}]}}"#, r#"{"a":1}"#, true),
        // A body that is not JSON has no facts at all.
        (r#"{"a":[{"exists":false}]}"#, "", false),
        (r#"{"a":[{"exists":false}]}"#, "<xml/>", false),
        (r#"{"a":[{"anything-but":"x"}]}"#, "", false),
    ]);
}

#[test]
fn anything_but_needs_a_leaf() {
    let pattern = r#"{"a":[{"anything-but":["x",5,null]}]}"#;
    for (value, expected) in [
        ("\"y\"", true),
        ("4", true),
        ("true", true),
        ("\"5\"", true),
        ("\"x\"", false),
        ("5.0", false),
        ("null", false),
        ("{}", false),
        ("[]", false),
        (r#"{"x":1}"#, false),
        ("[\"x\",5]", false),
        ("[\"x\",6]", true),
    ] {
        check(&[(pattern, &format!(r#"{{"a":{value}}}"#), expected)]);
    }
    check(&[
        (pattern, "{}", false),
        (r#"{"a":[{"anything-but":"x"}]}"#, r#"{"a":null}"#, true),
        (r#"{"a":[{"anything-but":{"prefix":"in"}}]}"#, r#"{"a":"init"}"#, false),
        (r#"{"a":[{"anything-but":{"prefix":"in"}}]}"#, r#"{"a":"out"}"#, true),
        (r#"{"a":[{"anything-but":{"prefix":["in","out"]}}]}"#, r#"{"a":"out"}"#, false),
        (r#"{"a":[{"anything-but":{"prefix":"in"}}]}"#, r#"{"a":7}"#, true),
        (r#"{"a":[{"anything-but":{"suffix":".png"}}]}"#, r#"{"a":"x.png"}"#, false),
        (r#"{"a":[{"anything-but":{"suffix":[".png",".gif"]}}]}"#, r#"{"a":"x.jpg"}"#, true),
        (r#"{"a":[{"anything-but":{"equals-ignore-case":["Init","run"]}}]}"#, r#"{"a":"INIT"}"#, false),
        (r#"{"a":[{"anything-but":{"equals-ignore-case":"Init"}}]}"#, r#"{"a":"other"}"#, true),
        (r#"{"a":[{"anything-but":{"wildcard":"*/lib/*"}}]}"#, r#"{"a":"/usr/lib/x"}"#, false),
        (r#"{"a":[{"anything-but":{"wildcard":["*/lib/*","b*"]}}]}"#, r#"{"a":"/usr/bin"}"#, true),
        (r#"{"a":[{"anything-but":{"prefix":{"equals-ignore-case":"in"}}}]}"#, r#"{"a":"INit"}"#, false),
        // Two of them in a list: any one is enough.
        (r#"{"a":[{"anything-but":"x"},{"anything-but":"y"}]}"#, r#"{"a":"x"}"#, true),
    ]);
}

#[test]
fn case_is_folded_simply_and_on_both_sides() {
    for (operand, value, expected) in [
        ("Hello", "hELLO", true),
        ("😀", "😀", true),
        ("😀", "??", false),
        ("𐐀", "𐐨", true),
        ("ς", "Σ", true),
        ("Σ", "ς", true),
        ("straße", "STRASSE", false),
        ("straße", "STRAẞE", true),
        ("ﬀ", "FF", false),
        (r"\u212a", "k", true),
        ("k", r"\u212A", true),
        ("İ", "i", false),
        ("ı", "i", false),
        ("é", "É", true),
        ("", "", true),
        ("a", "", false),
    ] {
        check(&[(
            &format!(r#"{{"a":[{{"equals-ignore-case":"{operand}"}}]}}"#),
            &format!(r#"{{"a":"{value}"}}"#),
            expected,
        )]);
    }
    check(&[
        (r#"{"a":[{"equals-ignore-ascii-case":"aé"}]}"#, r#"{"a":"Aé"}"#, true),
        (r#"{"a":[{"equals-ignore-ascii-case":"aé"}]}"#, r#"{"a":"AÉ"}"#, false),
        (r#"{"a":[{"prefix":{"equals-ignore-case":"ÉV"}}]}"#, r#"{"a":"événement"}"#, true),
        (r#"{"a":[{"prefix":{"equals-ignore-ascii-case":"ÉV"}}]}"#, r#"{"a":"événement"}"#, false),
        (r#"{"a":[{"suffix":{"equals-ignore-case":".PNG"}}]}"#, r#"{"a":"x.pNg"}"#, true),
        (r#"{"a":[{"equals-ignore-case":"5"}]}"#, r#"{"a":5}"#, false),
    ]);
}

#[test]
fn paths_are_keys_and_never_joined_text() {
    check(&[
        (r#"{"a.b":["x"]}"#, r#"{"a":{"b":"x"}}"#, false),
        (r#"{"a.b":["x"]}"#, r#"{"a.b":"x"}"#, true),
        (r#"{"a":{"b":["x"]}}"#, r#"{"a.b":"x"}"#, false),
        (r#"{"a\nb":["x"]}"#, r#"{"a":{"b":"x"}}"#, false),
        (r#"{"a":["::1"]}"#, r#"{"a":"0:0:0:0:0:0:0:1"}"#, false),
        (r#"{"a":["::1"]}"#, r#"{"a":"::1"}"#, true),
        (r#"{"":[1]}"#, r#"{"":1}"#, true),
        (r#"{"x":{"a":[1]}}"#, r#"{"a":1,"x":{"b":{"a":1}}}"#, false),
        (r#"{"a":["b"],"c":{"a":["d"]}}"#, r#"{"a":"b","c":{"a":"d"}}"#, true),
        (r#"{"a":{"b":[1]}}"#, r#"{"a":[1,{"b":1}]}"#, true),
        (r#"{"a":[1]}"#, r#"{"a":[1,{"b":1}]}"#, true),
    ]);
}

#[test]
fn wildcards_and_networks() {
    check(&[
        (r#"{"a":[{"wildcard":"dir/*.png"}]}"#, r#"{"a":"dir/x.png"}"#, true),
        (r#"{"a":[{"wildcard":"dir/*.png"}]}"#, r#"{"a":"dir/.pn"}"#, false),
        (r#"{"a":[{"wildcard":"a\\*b"}]}"#, r#"{"a":"a*b"}"#, true),
        (r#"{"a":[{"wildcard":"a\\*b"}]}"#, r#"{"a":"axb"}"#, false),
        (r#"{"a":[{"wildcard":"a\\\\*b"}]}"#, r#"{"a":"a\\xb"}"#, true),
        (r#"{"a":[{"wildcard":"*"}]}"#, r#"{"a":""}"#, true),
        (r#"{"a":[{"wildcard":"*"}]}"#, r#"{"a":1}"#, false),
        (r#"{"a":[{"wildcard":"?"}]}"#, r#"{"a":"x"}"#, false),
        (r#"{"a":[{"wildcard":"plain"}]}"#, r#"{"a":"plain"}"#, true),
        (r#"{"a":[{"cidr":"10.0.0.0/8"}]}"#, r#"{"a":"10.255.0.1"}"#, true),
        (r#"{"a":[{"cidr":"10.0.0.77/24"}]}"#, r#"{"a":"10.0.0.1"}"#, true),
        (r#"{"a":[{"cidr":"10.0.0.0/8"}]}"#, r#"{"a":"11.0.0.1"}"#, false),
        (r#"{"a":[{"cidr":"10.0.0.0/8"}]}"#, r#"{"a":"10.0.0.01"}"#, false),
        (r#"{"a":[{"cidr":"10.0.0.0/8"}]}"#, r#"{"a":"::ffff:10.0.0.1"}"#, false),
        (r#"{"a":[{"cidr":"10.0.0.0/8"}]}"#, r#"{"a":"10.0.0.1/8"}"#, false),
        (r#"{"a":[{"cidr":"0.0.0.0/0"}]}"#, r#"{"a":"::1"}"#, false),
        (r#"{"a":[{"cidr":"2001:db8::/32"}]}"#, r#"{"a":"2001:DB8:0:0::1"}"#, true),
        (r#"{"a":[{"prefix":"ab"}]}"#, r#"{"a":"abc"}"#, true),
        (r#"{"a":[{"prefix":"ab"}]}"#, r#"{"a":"a"}"#, false),
        (r#"{"a":[{"prefix":""}]}"#, r#"{"a":"x"}"#, true),
        (r#"{"a":[{"prefix":"1"}]}"#, r#"{"a":12}"#, false),
        (r#"{"a":[{"exactly":"x"}]}"#, r#"{"a":"x"}"#, true),
        (r#"{"a":[true]}"#, r#"{"a":true}"#, true),
        (r#"{"a":[true]}"#, r#"{"a":"true"}"#, false),
        (r#"{"a":[false]}"#, r#"{"a":true}"#, false),
        (r#"{"a":["x",{"prefix":"y"},3]}"#, r#"{"a":"yes"}"#, true),
        (r#"{"a":["x",{"prefix":"y"},3]}"#, r#"{"a":3.0}"#, true),
    ]);
}

#[test]
fn or_joins_its_branches_with_the_fields_around_it() {
    let nested =
        r#"{"s":["c"],"$or":[{"m":["1"]},{"t":["2"],"n":["3"],"$or":[{"i":[4]},{"p":[5]}]},{"x":["6"]}]}"#;
    check(&[
        (nested, r#"{"s":"c","m":"1"}"#, true),
        (nested, r#"{"s":"c","t":"2","n":"3","p":5}"#, true),
        (nested, r#"{"s":"c","t":"2","n":"3"}"#, false),
        (nested, r#"{"s":"c","x":"6"}"#, true),
        (nested, r#"{"m":"1"}"#, false),
        (
            r#"{"$or":[{"a":[1]},{"b":[2]}],"d":{"$or":[{"a":[3]},{"b":[4]}]}}"#,
            r#"{"b":2,"d":{"a":3}}"#,
            true,
        ),
        (
            r#"{"$or":[{"a":[1]},{"b":[2]}],"d":{"$or":[{"a":[3]},{"b":[4]}]}}"#,
            r#"{"b":2,"d":{"c":3}}"#,
            false,
        ),
        // Consistency spans the branches, wherever the alternative was written.
        (
            r#"{"d":{"k":["x"]},"$or":[{"d":{"v":[1]}},{"d":{"w":[2]}}]}"#,
            r#"{"d":[{"k":"x"},{"v":1}]}"#,
            false,
        ),
        (
            r#"{"d":{"k":["x"]},"$or":[{"d":{"v":[1]}},{"d":{"w":[2]}}]}"#,
            r#"{"d":[{"k":"x","w":2},{"v":1}]}"#,
            true,
        ),
        (r#"{"d":{"k":["x"],"$or":[{"v":[1]},{"w":[2]}]}}"#, r#"{"d":[{"k":"x"},{"v":1,"w":2}]}"#, false),
        (
            r#"{"d":{"k":["x"]},"e":[0],"$or":[{"d":{"v":[1]}},{"d":{"w":[2]}}]}"#,
            r#"{"e":0,"d":[{"k":"x"},{"v":1}]}"#,
            false,
        ),
        (r#"{"$or":[{"a":[{"exists":false}]},{"b":[1]}]}"#, "{}", true),
        (r#"{"$or":[{"a":{"b":[1]}},{"a":{"c":[1]}}],"a":[{"exists":false},1]}"#, r#"{"a":{"b":1}}"#, true),
        // A path that is leaf and node in one alternative cannot hold within one element.
        (r#"{"a":[1],"$or":[{"a":{"b":[1]}},{"c":[1]}]}"#, r#"{"a":[1,{"b":1}]}"#, false),
        (r#"{"a":[1],"$or":[{"a":{"b":[1]}},{"c":[1]}]}"#, r#"{"a":[1],"c":1}"#, true),
    ]);
}
