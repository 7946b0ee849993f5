"""Overview: is it well, and where does it get stuck."""

from .panels import dashboard, graph, quantiles, row, selector, stat, thresholds

ROLES = "~ingest|match|deliver|control"
RECORDED = '{pipeline=~"$pipeline"}'
LATE = thresholds((None, "green"), (60, "yellow"), (300, "red"))
FAILING = thresholds((None, "green"), (0.001, "yellow"), (0.01, "red"))
ZERO = thresholds((None, "green"), (1, "yellow"))


def rate(metric, by="", **labels):
    grouping = f"sum by ({by})" if by else "sum"
    return f"{grouping} (rate({metric}{selector(**labels)}[$__rate_interval]))"


def by_route(metric):
    bucket = f"sum by (le, route) (rate({metric}_bucket{selector()}[$__rate_interval]))"
    return f"histogram_quantile(0.99, {bucket})", "{{route}}"


def build():
    return dashboard(
        "mailrail-overview",
        "mailrail / Overview",
        "Events from the door to the endpoint: rates, errors, times, what waits.",
        [
            row(
                "Now",
                stat(
                    "Accepted",
                    "Events that the log acknowledged.",
                    "ops",
                    rate("mailrail_ingest_events_accepted_total"),
                ),
                stat(
                    "Delivered",
                    "Deliveries that ended well.",
                    "ops",
                    rate("mailrail_deliver_settled_total", outcome="delivered"),
                ),
                stat(
                    "Ingest errors, 1 h",
                    "Share of requests answered with 5xx. The budget is 0.1 %.",
                    "percentunit",
                    f"max(mailrail:ingest_errors:ratio_rate1h{RECORDED})",
                    **FAILING,
                ),
                stat(
                    "Oldest event to match",
                    "Age of the oldest event that match has not read.",
                    "s",
                    f"max(mailrail_mailbox_oldest_age_seconds{selector(queue='source')})",
                    **LATE,
                ),
                stat(
                    "Waiting deliveries",
                    "Parked deliveries: retries, limits, order.",
                    "short",
                    f"sum(mailrail_deliver_held{selector()})",
                ),
                stat(
                    "Dead letters, 24 h",
                    "Deliveries given up.",
                    "short",
                    f"sum(increase(mailrail_deliver_settled_total{selector(outcome='dead')}[24h]))",
                    **ZERO,
                ),
            ),
            row(
                "Ingest",
                graph(
                    "Requests by status",
                    "Answers of the front door.",
                    "reqps",
                    (rate("mailrail_ingest_requests_total", "status"), "{{status}}"),
                ),
                graph(
                    "Refused events by reason",
                    "Problem codes: docs/reference/problems.md.",
                    "ops",
                    (rate("mailrail_ingest_events_refused_total", "reason"), "{{reason}}"),
                ),
                graph(
                    "Time to acknowledge",
                    "How long the log takes, and clients wait.",
                    "s",
                    *quantiles("mailrail_ingest_append_seconds"),
                ),
                graph(
                    "Time of a request, 99 %",
                    "From its headers to its answer, by class of route.",
                    "s",
                    by_route("mailrail_ingest_request_seconds"),
                    width=12,
                ),
                graph(
                    "Open requests",
                    "Whose body is read, or whose answer is waited for.",
                    "short",
                    (f"sum(mailrail_ingest_requests_in_flight{selector()})", "ingest"),
                    (f"sum(mailrail_control_requests_in_flight{selector()})", "control"),
                    width=12,
                ),
            ),
            row(
                "Match",
                graph(
                    "Events and deliveries",
                    "What match evaluates, and how much comes of it.",
                    "ops",
                    (rate("mailrail_match_events_total"), "events"),
                    (rate("mailrail_match_events_unmatched_total"), "nobody wanted them"),
                    (rate("mailrail_match_deliveries_total"), "deliveries"),
                ),
                graph(
                    "Filter errors",
                    "Evaluations that failed; the subscription got nothing.",
                    "ops",
                    (rate("mailrail_match_filter_errors_total"), "errors"),
                ),
                graph(
                    "Age of the oldest record",
                    "What waits longest on the way to match, and on the way to endpoints.",
                    "s",
                    (f"max by (queue) (mailrail_mailbox_oldest_age_seconds{selector()})", "{{queue}}"),
                ),
            ),
            row(
                "Deliver",
                graph(
                    "Attempts by outcome",
                    "Requests to endpoints.",
                    "ops",
                    (rate("mailrail_deliver_attempts_total", "outcome"), "{{outcome}}"),
                ),
                graph(
                    "Time of an attempt",
                    "From name lookup to the end of the answer.",
                    "s",
                    *quantiles("mailrail_deliver_attempt_seconds"),
                ),
                graph(
                    "Accepted to delivered",
                    "With retries: the endpoints' time is in it.",
                    "s",
                    *quantiles("mailrail_deliver_age_seconds"),
                ),
                graph(
                    "Accepted to first attempt",
                    "What requests take is not in it, nor mail that waited for its endpoint. The aim: 99 % within 10 s.",
                    "s",
                    *quantiles("mailrail_deliver_first_attempt_delay_seconds", held="false"),
                    width=12,
                ),
                graph(
                    "First attempts after 10 s",
                    "Share of the deliveries that no endpoint held back. The aim is less than 1 %.",
                    "percentunit",
                    (f"max(mailrail:first_attempt_late:ratio_rate5m{RECORDED})", "5 minutes"),
                    (f"max(mailrail:first_attempt_late:ratio_rate1h{RECORDED})", "1 hour"),
                    width=12,
                ),
            ),
            row(
                "Outcomes",
                graph(
                    "Ends of deliveries",
                    "Every delivery ends once.",
                    "ops",
                    (rate("mailrail_deliver_settled_total", "outcome"), "{{outcome}}"),
                ),
                graph(
                    "Dead letters by reason",
                    "Why deliveries are given up.",
                    "ops",
                    (rate("mailrail_deliver_dead_letters_total", "reason"), "{{reason}}"),
                ),
                graph(
                    "Quarantine",
                    "Records that could not be read.",
                    "ops",
                    (rate("mailrail_match_quarantined_total"), "match"),
                    (rate("mailrail_deliver_quarantined_total"), "deliver"),
                ),
            ),
            row(
                "Control and replays",
                graph(
                    "Time of a control request, 99 %",
                    "By class of route.",
                    "s",
                    by_route("mailrail_control_request_seconds"),
                ),
                graph(
                    "Replays",
                    "Not over, as control sees them, and carried on now.",
                    "short",
                    (f"max(mailrail_replay_unfinished{selector()})", "not over"),
                    (f"sum(mailrail_replay_running{selector()})", "carried on"),
                ),
                graph(
                    "Letters of replays",
                    "Put back, passed over, failed; and the most that were ordered.",
                    "ops",
                    (rate("mailrail_replay_letters_total", "outcome"), "{{outcome}}"),
                    (f"sum(mailrail_replay_rate_limit{selector()})", "at most"),
                ),
            ),
            row(
                "Alerts",
                graph(
                    "Firing",
                    "Alerts of mailrail.",
                    "short",
                    (
                        'sum by (alertname, severity) (ALERTS{alertname=~"Mailrail.*", alertstate="firing"})',
                        "{{alertname}} ({{severity}})",
                    ),
                    width=12,
                ),
                graph(
                    "Processes",
                    "Targets that answer.",
                    "short",
                    (f"sum by (component) (up{selector(component=ROLES)})", "{{component}}"),
                    width=12,
                ),
            ),
        ],
    )
