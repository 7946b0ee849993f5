//! City lots: bodies in the shape of the public set citylots2 (a lot of land with its outline), and rule sets in the shape of those that
//! `aws/event-ruler` measures with it. Not that set itself: its 200 MB are not here.

use std::fmt::Write as _;

/// Bodies of a set.
const BODIES: u32 = 512;

/// Five rules, each with the part of the bodies that it picks.
pub(super) struct RuleSet {
    pub(super) name: &'static str,
    pub(super) rules: [&'static str; 5],
}

pub(super) const RULE_SETS: [RuleSet; 7] = [
    RuleSet {
        name: "exact",
        rules: [
            r#"{"properties":{"MAPBLKLOT":["0007013"]}}"#,
            r#"{"properties":{"STREET":["TAYLOR"]}}"#,
            r#"{"properties":{"BLOCK_NUM":["0011"],"ST_TYPE":["ST"]}}"#,
            r#"{"properties":{"FROM_ST":["119"]}}"#,
            r#"{"geometry":{"type":["MultiPolygon"]}}"#,
        ],
    },
    RuleSet {
        name: "prefix",
        rules: [
            r#"{"properties":{"STREET":[{"prefix":"TAY"}]}}"#,
            r#"{"properties":{"MAPBLKLOT":[{"prefix":"0003"}]}}"#,
            r#"{"properties":{"STREET":[{"prefix":"MAS"}]}}"#,
            r#"{"properties":{"FROM_ST":[{"prefix":"3"}]}}"#,
            r#"{"properties":{"BLKLOT":[{"prefix":"0019"}]}}"#,
        ],
    },
    RuleSet {
        name: "suffix",
        rules: [
            r#"{"properties":{"STREET":[{"suffix":"ON"}]}}"#,
            r#"{"properties":{"MAPBLKLOT":[{"suffix":"13"}]}}"#,
            r#"{"properties":{"STREET":[{"suffix":"LOR"}]}}"#,
            r#"{"properties":{"FROM_ST":[{"suffix":"7"}]}}"#,
            r#"{"properties":{"BLKLOT":[{"suffix":"0001"}]}}"#,
        ],
    },
    RuleSet {
        name: "wildcard",
        rules: [
            r#"{"properties":{"MAPBLKLOT":[{"wildcard":"0*3"}]}}"#,
            r#"{"properties":{"STREET":[{"wildcard":"*AY*R"}]}}"#,
            r#"{"properties":{"STREET":[{"wildcard":"M*N"}]}}"#,
            r#"{"properties":{"FROM_ST":[{"wildcard":"1*9"}]}}"#,
            r#"{"properties":{"BLKLOT":[{"wildcard":"00*0*7"}]}}"#,
        ],
    },
    RuleSet {
        name: "anything-but",
        rules: [
            r#"{"properties":{"STREET":[{"anything-but":["TAYLOR"]}]}}"#,
            r#"{"properties":{"MAPBLKLOT":[{"anything-but":["0007013","0003002"]}]}}"#,
            r#"{"properties":{"ST_TYPE":[{"anything-but":["ST"]}]}}"#,
            r#"{"geometry":{"type":[{"anything-but":["Polygon"]}]}}"#,
            r#"{"properties":{"FROM_ST":[{"anything-but":["119"]}]}}"#,
        ],
    },
    RuleSet {
        name: "numeric",
        rules: [
            r#"{"geometry":{"coordinates":[{"numeric":["=",-122.42]}]}}"#,
            r#"{"geometry":{"coordinates":[{"numeric":["<",-122.49]}]}}"#,
            r#"{"geometry":{"coordinates":[{"numeric":[">",37.77,"<",37.7701]}]}}"#,
            r#"{"geometry":{"coordinates":[{"numeric":[">",37.799]}]}}"#,
            r#"{"geometry":{"coordinates":[{"numeric":[">=",100]}]}}"#,
        ],
    },
    RuleSet {
        name: "complex-arrays",
        rules: [
            r#"{"geometry":{"type":["Polygon"],"coordinates":[{"numeric":["=",-122.42]}]}}"#,
            r#"{"geometry":{"type":["MultiPolygon"],"coordinates":[{"numeric":["<",0]}]}}"#,
            r#"{"properties":{"STREET":["TAYLOR"]},"geometry":{"coordinates":[{"numeric":[">",37.77]}]}}"#,
            r#"{"properties":{"ST_TYPE":[{"anything-but":["ST"]}]},"geometry":{"coordinates":[{"numeric":["<",-122.49]}]}}"#,
            r#"{"properties":{"FROM_ST":[{"prefix":"3"}]},"geometry":{"coordinates":[{"numeric":[">",37.799]}]}}"#,
        ],
    },
];

/// Lots of land, always the same.
pub(super) fn bodies() -> Vec<Vec<u8>> {
    (0..BODIES).map(lot).collect()
}

fn lot(n: u32) -> Vec<u8> {
    // Spreads numbers that follow each other; any odd multiplier does.
    let mix = |salt: u32| (n + 1).wrapping_mul(2_654_435_761).rotate_left(salt) ^ salt.wrapping_mul(97);
    let of = |salt: u32, names: [&'static str; 8]| names[mix(salt) as usize % names.len()];
    let block = n / 24;
    let lot = n % 24;
    let street =
        of(3, ["TAYLOR", "MASON", "JEFFERSON", "BEACH", "HYDE", "LEAVENWORTH", "JONES", "NORTH POINT"]);
    let st_type = of(7, ["ST", "ST", "ST", "AVE", "BLVD", "ST", "WAY", "CT"]);
    let from = 100 + mix(11) % 300;
    let kind = if n.is_multiple_of(16) { "MultiPolygon" } else { "Polygon" };
    let mut text = format!(
        r#"{{"type":"Feature","properties":{{"MAPBLKLOT":"{block:04}{lot:03}","BLKLOT":"{block:04}{lot:03}","BLOCK_NUM":"{block:04}","LOT_NUM":"{lot:03}","FROM_ST":"{from}","TO_ST":"{}","STREET":"{street}","ST_TYPE":"{st_type}","ODD_EVEN":"{}"}},"geometry":{{"type":"{kind}","coordinates":["#,
        from + 6,
        if from % 2 == 0 { "E" } else { "O" },
    );
    let rings = if kind == "Polygon" { 1 } else { 2 };
    for ring in 0..rings {
        text.push_str(if ring == 0 { "[" } else { ",[" });
        for point in 0..10 / rings {
            let (east, north) = (mix(13 + point) % 10_000, mix(17 + point + ring) % 4_000);
            let comma = if point == 0 { "" } else { "," };
            let written = write!(text, "{comma}[-122.4{east:04}12345,37.7{north:04}6789,0.0]");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        text.push(']');
    }
    text.push_str("]}}");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_in_the_shape_of_a_lot() {
        let bodies = bodies();
        assert_eq!(bodies.len(), BODIES as usize);
        for body in bodies {
            let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            assert!(value["geometry"]["coordinates"][0][0][0].is_number(), "{value}");
            assert!((500..1_000).contains(&body.len()), "{} bytes", body.len());
        }
    }
}
