"""Whether the books balance: what was accepted against what the receiver took. It is checked itself, at each start."""

from .processes import Failure

# Counts of the receiver that must be 0: something that is not ours, or that it could not judge.
NEVER = ("bad_signature", "unknown_endpoint", "sequence_unread", "truncated")
GOOD = {"order_violations": 0, "sequence_reordered": 0} | dict.fromkeys(NEVER, 0)


def balance(accepted, taken, report):
    """Events lost, violations of order, and in words whatever else is wrong."""
    lost = len(accepted - taken)
    # By the producers' numbers, and by `mailrail-sequence`.
    violations = max(report["order_violations"], report["sequence_reordered"])
    wrong = [f"the receiver counts {name}: {report[name]}" for name in NEVER if report[name]]
    if taken - accepted:
        wrong.append(f"{len(taken - accepted)} events were received that no producer was told are accepted")
    return lost, violations, wrong


def check_itself():
    """Each planted fault is found, and a true account is right."""
    events = {("a", 0), ("a", 1), ("b", 0)}
    right = balance(events, events, GOOD) == (0, 0, [])
    found = [
        balance(events, events - {("a", 1)}, GOOD)[0] == 1,
        balance(events - {("b", 0)}, events, GOOD)[2],
        *(balance(events, events, GOOD | {name: 2})[1] == 2 for name in ("order_violations", "sequence_reordered")),
        *(balance(events, events, GOOD | {name: 1})[2] for name in NEVER),
    ]
    if not (right and all(found)):
        raise Failure("the check of the books does not find what it must")
