"""Which metrics and labels an expression uses. Not a parser: promtool is; this finds names."""

import re

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?")
NOT_METRICS = set(
    "by without on ignoring group_left group_right and or unless bool offset sum min max avg count topk bottomk quantile stddev "
    "rate irate increase deriv delta idelta changes resets absent absent_over_time max_over_time min_over_time avg_over_time "
    "sum_over_time quantile_over_time last_over_time count_over_time histogram_quantile label_replace label_join clamp_min clamp_max "
    "clamp abs ceil floor round time vector scalar predict_linear sort sort_desc inf nan".split()
)
LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
DURATION = re.compile(r"\[[^\]]*\]")


def selectors(expression):
    """(metric, labels in its braces) of every selector."""
    text = GROUPING.sub(" ", DURATION.sub(" ", STRING.sub('""', expression)))
    for name, braces in SELECTOR.findall(text):
        if name not in NOT_METRICS:
            yield name, set(LABEL.findall(braces))


def groupings(expression):
    """Labels that anything is grouped or joined by."""
    return {
        label.strip()
        for labels in GROUPING.findall(STRING.sub('""', expression))
        for label in labels.split(",")
        if label.strip()
    }
